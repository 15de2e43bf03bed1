"""Objects in an S3 bucket, on AWS or any compatible server."""
