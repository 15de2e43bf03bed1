"""Objects in a bucket of Google Cloud Storage; needs the extra `gcs`."""
