"""The embedded lakeFS: a server in one Python process for demos and tests (README.md).

    serve, testing       `dredge serve`, and the pytest fixture
    server               the HTTP API
    gateway              the S3 gateway
    auth                 users, groups, policies
    catalog              the calls' meaning, without HTTP
    staging              changes not yet committed, and the commit protocol
    refs                 repositories, branches, commits, tags
    committed            the content of commits: changes, merges, differences
    errors               error messages and HTTP statuses

Each imports only packages below it. Files are read by `dredge.lakefs.files`. `dredge` imports none of this.
"""
