# mypy: disable-error-code="type-arg"
import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Task(_message.Message):
    __slots__ = ("id", "done", "updated_at", "progress", "error_msg", "status_code", "operation", "owner_instance_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_MSG_FIELD_NUMBER: _ClassVar[int]
    STATUS_CODE_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    OWNER_INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    done: bool
    updated_at: _timestamp_pb2.Timestamp
    progress: int
    error_msg: str
    status_code: int
    operation: str
    owner_instance_id: str
    def __init__(self, id: _Optional[str] = ..., done: bool = ..., updated_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., progress: _Optional[int] = ..., error_msg: _Optional[str] = ..., status_code: _Optional[int] = ..., operation: _Optional[str] = ..., owner_instance_id: _Optional[str] = ...) -> None: ...

class GarbageCollectionPrepareInfo(_message.Message):
    __slots__ = ("run_id", "gc_commits_location", "gc_addresses_location")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    GC_COMMITS_LOCATION_FIELD_NUMBER: _ClassVar[int]
    GC_ADDRESSES_LOCATION_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    gc_commits_location: str
    gc_addresses_location: str
    def __init__(self, run_id: _Optional[str] = ..., gc_commits_location: _Optional[str] = ..., gc_addresses_location: _Optional[str] = ...) -> None: ...

class GarbageCollectionPrepareStatus(_message.Message):
    __slots__ = ("task", "info")
    TASK_FIELD_NUMBER: _ClassVar[int]
    INFO_FIELD_NUMBER: _ClassVar[int]
    task: Task
    info: GarbageCollectionPrepareInfo
    def __init__(self, task: _Optional[_Union[Task, _Mapping]] = ..., info: _Optional[_Union[GarbageCollectionPrepareInfo, _Mapping]] = ...) -> None: ...

class InstanceHeartbeat(_message.Message):
    __slots__ = ("updated_at",)
    UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
    updated_at: _timestamp_pb2.Timestamp
    def __init__(self, updated_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class BranchOwnership(_message.Message):
    __slots__ = ("owner", "expires", "comment")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_FIELD_NUMBER: _ClassVar[int]
    COMMENT_FIELD_NUMBER: _ClassVar[int]
    owner: str
    expires: _timestamp_pb2.Timestamp
    comment: str
    def __init__(self, owner: _Optional[str] = ..., expires: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., comment: _Optional[str] = ...) -> None: ...

class RepositoryDumpInfo(_message.Message):
    __slots__ = ("commits_meta_range_id", "tags_meta_range_id", "branches_meta_range_id")
    COMMITS_META_RANGE_ID_FIELD_NUMBER: _ClassVar[int]
    TAGS_META_RANGE_ID_FIELD_NUMBER: _ClassVar[int]
    BRANCHES_META_RANGE_ID_FIELD_NUMBER: _ClassVar[int]
    commits_meta_range_id: str
    tags_meta_range_id: str
    branches_meta_range_id: str
    def __init__(self, commits_meta_range_id: _Optional[str] = ..., tags_meta_range_id: _Optional[str] = ..., branches_meta_range_id: _Optional[str] = ...) -> None: ...

class RepositoryDumpStatus(_message.Message):
    __slots__ = ("task", "info")
    TASK_FIELD_NUMBER: _ClassVar[int]
    INFO_FIELD_NUMBER: _ClassVar[int]
    task: Task
    info: RepositoryDumpInfo
    def __init__(self, task: _Optional[_Union[Task, _Mapping]] = ..., info: _Optional[_Union[RepositoryDumpInfo, _Mapping]] = ...) -> None: ...

class RepositoryRestoreStatus(_message.Message):
    __slots__ = ("task",)
    TASK_FIELD_NUMBER: _ClassVar[int]
    task: Task
    def __init__(self, task: _Optional[_Union[Task, _Mapping]] = ...) -> None: ...
