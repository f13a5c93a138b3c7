from kvroute.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GenerateRequest(_message.Message):
    __slots__ = ("model", "prompt", "chat", "token_ids", "sampling", "policy", "tenant", "adapter", "priority", "hints", "trace", "request_id")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    CHAT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    HINTS_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    model: str
    prompt: str
    chat: Chat
    token_ids: bytes
    sampling: _common_pb2.SamplingParams
    policy: str
    tenant: str
    adapter: str
    priority: int
    hints: _common_pb2.ReuseHints
    trace: _common_pb2.TraceContext
    request_id: str
    def __init__(self, model: _Optional[str] = ..., prompt: _Optional[str] = ..., chat: _Optional[_Union[Chat, _Mapping]] = ..., token_ids: _Optional[bytes] = ..., sampling: _Optional[_Union[_common_pb2.SamplingParams, _Mapping]] = ..., policy: _Optional[str] = ..., tenant: _Optional[str] = ..., adapter: _Optional[str] = ..., priority: _Optional[int] = ..., hints: _Optional[_Union[_common_pb2.ReuseHints, _Mapping]] = ..., trace: _Optional[_Union[_common_pb2.TraceContext, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class Chat(_message.Message):
    __slots__ = ("messages", "tools_json", "template_kwargs_json")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    TOOLS_JSON_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_KWARGS_JSON_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[ChatMessage]
    tools_json: str
    template_kwargs_json: str
    def __init__(self, messages: _Optional[_Iterable[_Union[ChatMessage, _Mapping]]] = ..., tools_json: _Optional[str] = ..., template_kwargs_json: _Optional[str] = ...) -> None: ...

class ChatMessage(_message.Message):
    __slots__ = ("role", "content", "name", "tool_calls_json", "tool_call_id")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALLS_JSON_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    role: str
    content: str
    name: str
    tool_calls_json: str
    tool_call_id: str
    def __init__(self, role: _Optional[str] = ..., content: _Optional[str] = ..., name: _Optional[str] = ..., tool_calls_json: _Optional[str] = ..., tool_call_id: _Optional[str] = ...) -> None: ...

class GenerateResponse(_message.Message):
    __slots__ = ("outputs", "usage", "timing")
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    TIMING_FIELD_NUMBER: _ClassVar[int]
    outputs: _containers.RepeatedCompositeFieldContainer[Output]
    usage: _common_pb2.Usage
    timing: _common_pb2.Timing
    def __init__(self, outputs: _Optional[_Iterable[_Union[Output, _Mapping]]] = ..., usage: _Optional[_Union[_common_pb2.Usage, _Mapping]] = ..., timing: _Optional[_Union[_common_pb2.Timing, _Mapping]] = ...) -> None: ...

class Output(_message.Message):
    __slots__ = ("text", "token_ids", "index", "finish_reason", "stop_reason", "logprobs")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    STOP_REASON_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    text: str
    token_ids: bytes
    index: int
    finish_reason: _common_pb2.FinishReason
    stop_reason: str
    logprobs: _containers.RepeatedCompositeFieldContainer[TokenLogprobs]
    def __init__(self, text: _Optional[str] = ..., token_ids: _Optional[bytes] = ..., index: _Optional[int] = ..., finish_reason: _Optional[_Union[_common_pb2.FinishReason, str]] = ..., stop_reason: _Optional[str] = ..., logprobs: _Optional[_Iterable[_Union[TokenLogprobs, _Mapping]]] = ...) -> None: ...

class TokenLogprobs(_message.Message):
    __slots__ = ("chosen", "top")
    CHOSEN_FIELD_NUMBER: _ClassVar[int]
    TOP_FIELD_NUMBER: _ClassVar[int]
    chosen: TokenLogprob
    top: _containers.RepeatedCompositeFieldContainer[TokenLogprob]
    def __init__(self, chosen: _Optional[_Union[TokenLogprob, _Mapping]] = ..., top: _Optional[_Iterable[_Union[TokenLogprob, _Mapping]]] = ...) -> None: ...

class TokenLogprob(_message.Message):
    __slots__ = ("token", "text", "logprob")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    LOGPROB_FIELD_NUMBER: _ClassVar[int]
    token: int
    text: str
    logprob: float
    def __init__(self, token: _Optional[int] = ..., text: _Optional[str] = ..., logprob: _Optional[float] = ...) -> None: ...

class RouteRequest(_message.Message):
    __slots__ = ("request",)
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    request: GenerateRequest
    def __init__(self, request: _Optional[_Union[GenerateRequest, _Mapping]] = ...) -> None: ...

class RouteResponse(_message.Message):
    __slots__ = ("explain",)
    EXPLAIN_FIELD_NUMBER: _ClassVar[int]
    explain: Explain
    def __init__(self, explain: _Optional[_Union[Explain, _Mapping]] = ...) -> None: ...

class GetExplainRequest(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    def __init__(self, request_id: _Optional[str] = ...) -> None: ...

class GetExplainResponse(_message.Message):
    __slots__ = ("explain",)
    EXPLAIN_FIELD_NUMBER: _ClassVar[int]
    explain: Explain
    def __init__(self, explain: _Optional[_Union[Explain, _Mapping]] = ...) -> None: ...

class Explain(_message.Message):
    __slots__ = ("request_id", "router_id", "model", "policy", "prompt_tokens", "candidates", "worker_id", "reason", "best_hit", "chosen_hit", "delivered_hit", "predicted_ms", "delivered_prefill_ms", "ttft_ms", "kappa", "degraded", "retries", "tokenize_ms", "decide_ms")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ROUTER_ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BEST_HIT_FIELD_NUMBER: _ClassVar[int]
    CHOSEN_HIT_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_HIT_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_MS_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_PREFILL_MS_FIELD_NUMBER: _ClassVar[int]
    TTFT_MS_FIELD_NUMBER: _ClassVar[int]
    KAPPA_FIELD_NUMBER: _ClassVar[int]
    DEGRADED_FIELD_NUMBER: _ClassVar[int]
    RETRIES_FIELD_NUMBER: _ClassVar[int]
    TOKENIZE_MS_FIELD_NUMBER: _ClassVar[int]
    DECIDE_MS_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    router_id: str
    model: str
    policy: str
    prompt_tokens: int
    candidates: _containers.RepeatedCompositeFieldContainer[CandidateCost]
    worker_id: str
    reason: str
    best_hit: int
    chosen_hit: int
    delivered_hit: int
    predicted_ms: float
    delivered_prefill_ms: float
    ttft_ms: float
    kappa: float
    degraded: bool
    retries: int
    tokenize_ms: float
    decide_ms: float
    def __init__(self, request_id: _Optional[str] = ..., router_id: _Optional[str] = ..., model: _Optional[str] = ..., policy: _Optional[str] = ..., prompt_tokens: _Optional[int] = ..., candidates: _Optional[_Iterable[_Union[CandidateCost, _Mapping]]] = ..., worker_id: _Optional[str] = ..., reason: _Optional[str] = ..., best_hit: _Optional[int] = ..., chosen_hit: _Optional[int] = ..., delivered_hit: _Optional[int] = ..., predicted_ms: _Optional[float] = ..., delivered_prefill_ms: _Optional[float] = ..., ttft_ms: _Optional[float] = ..., kappa: _Optional[float] = ..., degraded: _Optional[bool] = ..., retries: _Optional[int] = ..., tokenize_ms: _Optional[float] = ..., decide_ms: _Optional[float] = ...) -> None: ...

class CandidateCost(_message.Message):
    __slots__ = ("worker_id", "hit", "miss", "queue_ms", "prefill_ms", "decode_ms", "cost", "miss_weight", "outstanding")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    HIT_FIELD_NUMBER: _ClassVar[int]
    MISS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_MS_FIELD_NUMBER: _ClassVar[int]
    PREFILL_MS_FIELD_NUMBER: _ClassVar[int]
    DECODE_MS_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    MISS_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    OUTSTANDING_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    hit: int
    miss: int
    queue_ms: float
    prefill_ms: float
    decode_ms: float
    cost: float
    miss_weight: float
    outstanding: int
    def __init__(self, worker_id: _Optional[str] = ..., hit: _Optional[int] = ..., miss: _Optional[int] = ..., queue_ms: _Optional[float] = ..., prefill_ms: _Optional[float] = ..., decode_ms: _Optional[float] = ..., cost: _Optional[float] = ..., miss_weight: _Optional[float] = ..., outstanding: _Optional[int] = ...) -> None: ...

class ClusterStateRequest(_message.Message):
    __slots__ = ("model",)
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: str
    def __init__(self, model: _Optional[str] = ...) -> None: ...

class ClusterStateResponse(_message.Message):
    __slots__ = ("router_id", "version", "models")
    ROUTER_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    router_id: str
    version: str
    models: _containers.RepeatedCompositeFieldContainer[ModelState]
    def __init__(self, router_id: _Optional[str] = ..., version: _Optional[str] = ..., models: _Optional[_Iterable[_Union[ModelState, _Mapping]]] = ...) -> None: ...

class ModelState(_message.Message):
    __slots__ = ("identity", "workers", "view_complete", "degraded", "resyncs", "gaps", "policies", "default_policy", "routers")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    VIEW_COMPLETE_FIELD_NUMBER: _ClassVar[int]
    DEGRADED_FIELD_NUMBER: _ClassVar[int]
    RESYNCS_FIELD_NUMBER: _ClassVar[int]
    GAPS_FIELD_NUMBER: _ClassVar[int]
    POLICIES_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_POLICY_FIELD_NUMBER: _ClassVar[int]
    ROUTERS_FIELD_NUMBER: _ClassVar[int]
    identity: _common_pb2.ModelIdentity
    workers: _containers.RepeatedCompositeFieldContainer[WorkerState]
    view_complete: bool
    degraded: bool
    resyncs: int
    gaps: int
    policies: _containers.RepeatedScalarFieldContainer[str]
    default_policy: str
    routers: int
    def __init__(self, identity: _Optional[_Union[_common_pb2.ModelIdentity, _Mapping]] = ..., workers: _Optional[_Iterable[_Union[WorkerState, _Mapping]]] = ..., view_complete: _Optional[bool] = ..., degraded: _Optional[bool] = ..., resyncs: _Optional[int] = ..., gaps: _Optional[int] = ..., policies: _Optional[_Iterable[str]] = ..., default_policy: _Optional[str] = ..., routers: _Optional[int] = ...) -> None: ...

class WorkerState(_message.Message):
    __slots__ = ("worker_id", "address", "epoch", "sequence", "slot", "cached_blocks", "total_blocks", "connected", "draining", "queue_ms", "outstanding", "costs", "adapters")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    CACHED_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    QUEUE_MS_FIELD_NUMBER: _ClassVar[int]
    OUTSTANDING_FIELD_NUMBER: _ClassVar[int]
    COSTS_FIELD_NUMBER: _ClassVar[int]
    ADAPTERS_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    address: str
    epoch: int
    sequence: int
    slot: int
    cached_blocks: int
    total_blocks: int
    connected: bool
    draining: bool
    queue_ms: float
    outstanding: int
    costs: LearnedCosts
    adapters: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, worker_id: _Optional[str] = ..., address: _Optional[str] = ..., epoch: _Optional[int] = ..., sequence: _Optional[int] = ..., slot: _Optional[int] = ..., cached_blocks: _Optional[int] = ..., total_blocks: _Optional[int] = ..., connected: _Optional[bool] = ..., draining: _Optional[bool] = ..., queue_ms: _Optional[float] = ..., outstanding: _Optional[int] = ..., costs: _Optional[_Union[LearnedCosts, _Mapping]] = ..., adapters: _Optional[_Iterable[str]] = ...) -> None: ...

class LearnedCosts(_message.Message):
    __slots__ = ("base_ms", "hit_ms_per_1k", "miss_ms_per_1k", "attention_ratio", "step_base_ms", "step_ms_per_request")
    BASE_MS_FIELD_NUMBER: _ClassVar[int]
    HIT_MS_PER_1K_FIELD_NUMBER: _ClassVar[int]
    MISS_MS_PER_1K_FIELD_NUMBER: _ClassVar[int]
    ATTENTION_RATIO_FIELD_NUMBER: _ClassVar[int]
    STEP_BASE_MS_FIELD_NUMBER: _ClassVar[int]
    STEP_MS_PER_REQUEST_FIELD_NUMBER: _ClassVar[int]
    base_ms: float
    hit_ms_per_1k: float
    miss_ms_per_1k: float
    attention_ratio: float
    step_base_ms: float
    step_ms_per_request: float
    def __init__(self, base_ms: _Optional[float] = ..., hit_ms_per_1k: _Optional[float] = ..., miss_ms_per_1k: _Optional[float] = ..., attention_ratio: _Optional[float] = ..., step_base_ms: _Optional[float] = ..., step_ms_per_request: _Optional[float] = ...) -> None: ...
