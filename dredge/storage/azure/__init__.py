"""Azure Blob Storage, through the service's own SDK (extra `azure`); see docs/stores/azure.md."""
