"""Azure Blob Storage, through the service's own SDK (extra `azure`); docs/stores/azure.md says what it rests on."""
