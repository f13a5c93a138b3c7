from kvroute.v1 import common_pb2 as _common_pb2
from kvroute.v1 import router_pb2 as _router_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SessionRequest(_message.Message):
    __slots__ = ("hello", "submits", "cancels", "tokenizes")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    SUBMITS_FIELD_NUMBER: _ClassVar[int]
    CANCELS_FIELD_NUMBER: _ClassVar[int]
    TOKENIZES_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    submits: _containers.RepeatedCompositeFieldContainer[Submit]
    cancels: _containers.RepeatedCompositeFieldContainer[Cancel]
    tokenizes: _containers.RepeatedCompositeFieldContainer[Tokenize]
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., submits: _Optional[_Iterable[_Union[Submit, _Mapping]]] = ..., cancels: _Optional[_Iterable[_Union[Cancel, _Mapping]]] = ..., tokenizes: _Optional[_Iterable[_Union[Tokenize, _Mapping]]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("protocol_version", "router_id", "identity")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    ROUTER_ID_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    router_id: str
    identity: _common_pb2.ModelIdentity
    def __init__(self, protocol_version: _Optional[int] = ..., router_id: _Optional[str] = ..., identity: _Optional[_Union[_common_pb2.ModelIdentity, _Mapping]] = ...) -> None: ...

class Submit(_message.Message):
    __slots__ = ("stream_id", "request_id", "token_ids", "sampling", "tenant", "adapter", "priority", "hints", "trace", "expected_hit", "resumed_tokens", "deadline_ms")
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    HINTS_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_HIT_FIELD_NUMBER: _ClassVar[int]
    RESUMED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    stream_id: int
    request_id: str
    token_ids: bytes
    sampling: _common_pb2.SamplingParams
    tenant: str
    adapter: str
    priority: int
    hints: _common_pb2.ReuseHints
    trace: _common_pb2.TraceContext
    expected_hit: int
    resumed_tokens: int
    deadline_ms: int
    def __init__(self, stream_id: _Optional[int] = ..., request_id: _Optional[str] = ..., token_ids: _Optional[bytes] = ..., sampling: _Optional[_Union[_common_pb2.SamplingParams, _Mapping]] = ..., tenant: _Optional[str] = ..., adapter: _Optional[str] = ..., priority: _Optional[int] = ..., hints: _Optional[_Union[_common_pb2.ReuseHints, _Mapping]] = ..., trace: _Optional[_Union[_common_pb2.TraceContext, _Mapping]] = ..., expected_hit: _Optional[int] = ..., resumed_tokens: _Optional[int] = ..., deadline_ms: _Optional[int] = ...) -> None: ...

class Cancel(_message.Message):
    __slots__ = ("stream_id",)
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    stream_id: int
    def __init__(self, stream_id: _Optional[int] = ...) -> None: ...

class Tokenize(_message.Message):
    __slots__ = ("stream_id", "text", "chat", "token_ids")
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    CHAT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    stream_id: int
    text: str
    chat: _router_pb2.Chat
    token_ids: bytes
    def __init__(self, stream_id: _Optional[int] = ..., text: _Optional[str] = ..., chat: _Optional[_Union[_router_pb2.Chat, _Mapping]] = ..., token_ids: _Optional[bytes] = ...) -> None: ...

class SessionResponse(_message.Message):
    __slots__ = ("hello", "chunks", "tokenized", "draining")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    TOKENIZED_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    hello: HelloReply
    chunks: _containers.RepeatedCompositeFieldContainer[Chunk]
    tokenized: _containers.RepeatedCompositeFieldContainer[Tokenized]
    draining: bool
    def __init__(self, hello: _Optional[_Union[HelloReply, _Mapping]] = ..., chunks: _Optional[_Iterable[_Union[Chunk, _Mapping]]] = ..., tokenized: _Optional[_Iterable[_Union[Tokenized, _Mapping]]] = ..., draining: _Optional[bool] = ...) -> None: ...

class HelloReply(_message.Message):
    __slots__ = ("protocol_version", "worker_id", "epoch", "identity")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    worker_id: str
    epoch: int
    identity: _common_pb2.ModelIdentity
    def __init__(self, protocol_version: _Optional[int] = ..., worker_id: _Optional[str] = ..., epoch: _Optional[int] = ..., identity: _Optional[_Union[_common_pb2.ModelIdentity, _Mapping]] = ...) -> None: ...

class Chunk(_message.Message):
    __slots__ = ("stream_id", "response", "admission", "end")
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    ADMISSION_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    stream_id: int
    response: bytes
    admission: Admission
    end: End
    def __init__(self, stream_id: _Optional[int] = ..., response: _Optional[bytes] = ..., admission: _Optional[_Union[Admission, _Mapping]] = ..., end: _Optional[_Union[End, _Mapping]] = ...) -> None: ...

class Admission(_message.Message):
    __slots__ = ("cached_tokens", "queue_ms")
    CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_MS_FIELD_NUMBER: _ClassVar[int]
    cached_tokens: int
    queue_ms: float
    def __init__(self, cached_tokens: _Optional[int] = ..., queue_ms: _Optional[float] = ...) -> None: ...

class End(_message.Message):
    __slots__ = ("finish_reason", "usage", "timing", "preemptions", "code", "message", "detail")
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    TIMING_FIELD_NUMBER: _ClassVar[int]
    PREEMPTIONS_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    finish_reason: _common_pb2.FinishReason
    usage: _common_pb2.Usage
    timing: _common_pb2.Timing
    preemptions: int
    code: int
    message: str
    detail: _common_pb2.ErrorDetail
    def __init__(self, finish_reason: _Optional[_Union[_common_pb2.FinishReason, str]] = ..., usage: _Optional[_Union[_common_pb2.Usage, _Mapping]] = ..., timing: _Optional[_Union[_common_pb2.Timing, _Mapping]] = ..., preemptions: _Optional[int] = ..., code: _Optional[int] = ..., message: _Optional[str] = ..., detail: _Optional[_Union[_common_pb2.ErrorDetail, _Mapping]] = ...) -> None: ...

class Tokenized(_message.Message):
    __slots__ = ("stream_id", "token_ids", "code", "message", "text")
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    stream_id: int
    token_ids: bytes
    code: int
    message: str
    text: str
    def __init__(self, stream_id: _Optional[int] = ..., token_ids: _Optional[bytes] = ..., code: _Optional[int] = ..., message: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ("grace_ms",)
    GRACE_MS_FIELD_NUMBER: _ClassVar[int]
    grace_ms: int
    def __init__(self, grace_ms: _Optional[int] = ...) -> None: ...

class DrainResponse(_message.Message):
    __slots__ = ("unfinished",)
    UNFINISHED_FIELD_NUMBER: _ClassVar[int]
    unfinished: int
    def __init__(self, unfinished: _Optional[int] = ...) -> None: ...

class FlushCacheRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FlushCacheResponse(_message.Message):
    __slots__ = ("dropped_blocks", "kept_blocks")
    DROPPED_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    KEPT_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    dropped_blocks: int
    kept_blocks: int
    def __init__(self, dropped_blocks: _Optional[int] = ..., kept_blocks: _Optional[int] = ...) -> None: ...

class LoadAdapterRequest(_message.Message):
    __slots__ = ("name", "path")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    name: str
    path: str
    def __init__(self, name: _Optional[str] = ..., path: _Optional[str] = ...) -> None: ...

class LoadAdapterResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class UnloadAdapterRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class UnloadAdapterResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
