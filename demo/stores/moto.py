"""moto, an S3 server in this process."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from dredge.storage import StorageOptions


@contextmanager
def moto(bucket: str = "demo-lake") -> Iterator[StorageOptions]:
    """Run a server with a bucket on a free port."""
    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        options = StorageOptions(
            endpoint_url=f"http://{host}:{port}",
            region="us-east-1",
            access_key_id="AKIAEMULATOR",
            secret_access_key="secret-of-the-emulator",
        )
        client = boto3.client(
            "s3",
            endpoint_url=options.endpoint_url,
            region_name=options.region,
            aws_access_key_id=options.access_key_id,
            aws_secret_access_key=options.secret_access_key,
        )
        client.create_bucket(Bucket=bucket)
        yield options
    finally:
        server.stop()
