"""Operations of the gateway, one module per kind. Handlers block, and only translate between S3 and the catalog."""
