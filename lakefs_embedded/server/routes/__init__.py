"""The route table: every call of the API, one row each, in one module per part of the API.

A row is an `Operation`: method, path, handler, required permissions and, for a call with a JSON body, its
schema. To add a call:

1. Row: add it to the module of its part here (`objects.py`, `refs.py`, …), with its permission. The part is that of
   its last noun: `/branches/{branch}/objects` belongs to objects.
2. Handler: add its function to `server/handlers/`. It reads arguments from the `ApiRequest`, makes one call on
   `request.catalog` and returns a response from `server.responses`. A new JSON body is a constant in
   `schemas.py`, a new JSON object a function in `serializers.py`.
3. Catalog: add a method to `lakefs_embedded.catalog`, tested there without HTTP. Its errors carry their HTTP status.
4. Test (in `tests/unit/lakefs_embedded/server`): add the call's status codes and a case for each to
   `routes/test_status_codes.py`, and its response to `handlers/`. Tests of the whole table cover the rest:
   credentials, the permission, error bodies, unknown repositories, malformed bodies. A call without a permission
   (`PUBLIC`, `AUTHENTICATED`) is also listed in `test_permissions.py`.

If the call was listed in `UNIMPLEMENTED`, remove it there.

Order does not matter: a test proves that no two rows match the same request. A call of lakeFS without an
implementation here answers 501 with lakeFS's message (`UNIMPLEMENTED`); an unknown call answers 404.
"""

from __future__ import annotations

from lakefs_embedded.server.operations import Operation
from lakefs_embedded.server.routes.auth import AUTH
from lakefs_embedded.server.routes.garbage_collection import GARBAGE_COLLECTION
from lakefs_embedded.server.routes.objects import OBJECTS
from lakefs_embedded.server.routes.paths import BRANCH, GROUP, REPOSITORY, USER
from lakefs_embedded.server.routes.refs import REFS
from lakefs_embedded.server.routes.repositories import REPOSITORIES
from lakefs_embedded.server.routes.server_info import SERVER_INFO

BASE_PATH = "/api/v1"

OPERATIONS: tuple[Operation, ...] = (
    *OBJECTS,
    *REFS,
    *GARBAGE_COLLECTION,
    *REPOSITORIES,
    *AUTH,
    *SERVER_INFO,
)

UNIMPLEMENTED: tuple[tuple[str, str], ...] = (
    ("POST", "/setup_comm_prefs"),
    ("POST", "/sts/login"),
    ("POST", "/auth/external/principal/login"),
    ("GET", "/auth/external/principals"),
    ("GET", USER + "/external/principals/ls"),
    ("POST", USER + "/external/principals"),
    ("DELETE", USER + "/external/principals"),
    ("GET", GROUP + "/acl"),
    ("POST", GROUP + "/acl"),
    ("GET", REPOSITORY + "/actions/runs"),
    ("GET", REPOSITORY + "/actions/runs/{run}"),
    ("GET", REPOSITORY + "/actions/runs/{run}/hooks"),
    ("GET", REPOSITORY + "/actions/runs/{run}/hooks/{hook_run}/output"),
    ("GET", REPOSITORY + "/pulls"),
    ("POST", REPOSITORY + "/pulls"),
    ("GET", REPOSITORY + "/pulls/{pull}"),
    ("PATCH", REPOSITORY + "/pulls/{pull}"),
    ("PUT", REPOSITORY + "/pulls/{pull}/merge"),
    ("POST", REPOSITORY + "/refs/{branch}/symlink"),
    ("POST", BRANCH + "/staging/pmpu"),
    ("PUT", BRANCH + "/staging/pmpu/{upload}"),
    ("DELETE", BRANCH + "/staging/pmpu/{upload}"),
    ("PUT", BRANCH + "/staging/pmpu/{upload}/parts/{part}"),
    ("PUT", BRANCH + "/staging/pmpu/{upload}/parts/{part}/copy"),
)
"""Method and path of each unimplemented lakeFS call: 501, with credentials."""
