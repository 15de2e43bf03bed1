# mypy: disable-error-code="type-arg"
import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RunResultData(_message.Message):
    __slots__ = ("run_id", "branch_id", "commit_id", "source_ref", "event_type", "start_time", "end_time", "passed")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    BRANCH_ID_FIELD_NUMBER: _ClassVar[int]
    COMMIT_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_REF_FIELD_NUMBER: _ClassVar[int]
    EVENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    PASSED_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    branch_id: str
    commit_id: str
    source_ref: str
    event_type: str
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    passed: bool
    def __init__(self, run_id: _Optional[str] = ..., branch_id: _Optional[str] = ..., commit_id: _Optional[str] = ..., source_ref: _Optional[str] = ..., event_type: _Optional[str] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., passed: bool = ...) -> None: ...

class TaskResultData(_message.Message):
    __slots__ = ("run_id", "hook_run_id", "hook_id", "action_name", "start_time", "end_time", "passed")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    HOOK_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    HOOK_ID_FIELD_NUMBER: _ClassVar[int]
    ACTION_NAME_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    PASSED_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    hook_run_id: str
    hook_id: str
    action_name: str
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    passed: bool
    def __init__(self, run_id: _Optional[str] = ..., hook_run_id: _Optional[str] = ..., hook_id: _Optional[str] = ..., action_name: _Optional[str] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., passed: bool = ...) -> None: ...
