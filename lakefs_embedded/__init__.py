"""The embedded lakeFS: a server in one Python process for demos and tests; README.md says for whom.

    serve, testing       `dredge serve`, and the pytest fixture
    server               the HTTP API
    gateway              the S3 gateway
    auth                 users, groups, policies
    catalog              what calls mean, without HTTP
    staging              changes not yet committed, and the commit protocol
    refs                 repositories, branches, commits, tags
    committed            the content of commits: changes, merges, differences
    errors               what a client is told, and with which status

Each knows only those below it. The bytes are those of `dredge.lakefs.files`. `dredge` imports nothing of this.
"""
