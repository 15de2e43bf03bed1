"""The user of a page, found as Airflow's own routes find it: by a dependency, whose arguments differ by version."""

# FastAPI reads the annotations, so they are no text.
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.core_api.security import get_user
from fastapi import Depends, Request


def keep_user(request: Request, user: BaseUser = Depends(get_user)) -> None:  # noqa: B008
    """Leave the user where the pages find them."""
    request.state.dredge_user = user
