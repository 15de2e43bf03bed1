"""Step mark: find the live snapshots, transaction logs, manifests and chunks."""
