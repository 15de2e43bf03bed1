"""Operations of the gateway, one module a noun. Handlers block, and only translate."""
