"""The user of a page, and what they may do: asked as Airflow's own routes ask. What these take differs by version."""

# FastAPI reads the annotations, so they are no text.
import inspect
from collections.abc import Callable
from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.base_auth_manager import ResourceMethod
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import get_user, requires_access_dag
from fastapi import Depends, HTTPException, Request


def keep_user(request: Request, user: BaseUser = Depends(get_user)) -> None:  # noqa: B008
    """Leave the user where the pages find them."""
    request.state.dredge_user = user


def requires_access(
    method: ResourceMethod, dag_id: str, entity: DagAccessEntity | None = None
) -> Callable[..., Any]:
    """Return a dependency that lets nobody pass who may not do something with a DAG.

    :param method: what is done
    :param dag_id: the DAG
    :param entity: what of the DAG; None for all of it
    """
    if "param_dag_id" in inspect.signature(requires_access_dag).parameters:
        return requires_access_dag(method, entity, param_dag_id=dag_id)

    # Airflow 3.0 takes the DAG from the address alone.
    def ask(user: BaseUser = Depends(get_user)) -> None:  # noqa: B008
        details = DagDetails(id=dag_id)
        if not get_auth_manager().is_authorized_dag(
            method=method, access_entity=entity, details=details, user=user
        ):
            raise HTTPException(403, "Forbidden")

    return ask
