"""Step mark: which snapshots, transaction logs, manifests and chunks are live."""
