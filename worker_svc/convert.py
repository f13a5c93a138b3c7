"""Between the wire's messages and the engine's: one place that knows both."""

from __future__ import annotations

from cache_index.identity import ModelIdentity
from kvroute.tokens import pack_tokens, unpack_tokens
from kvroute.v1 import common_pb2, router_pb2, worker_pb2
from worker_svc.base import EngineRequest, Finished, Output, Sampling, TokenLogprobs
from worker_svc.engine.reuse import dead_from
from worker_svc.text.detokenizer import Decode

_REASONS = {
    "stop": common_pb2.FINISH_REASON_STOP,
    "length": common_pb2.FINISH_REASON_LENGTH,
    "cancelled": common_pb2.FINISH_REASON_CANCELLED,
    "error": common_pb2.FINISH_REASON_ERROR,
}


def sampling(params: common_pb2.SamplingParams) -> Sampling:
    """Fills in the defaults that the message names."""
    return Sampling(
        max_tokens=params.max_tokens or 16,
        temperature=params.temperature,
        top_p=params.top_p or 1.0,
        top_k=params.top_k,
        min_p=params.min_p,
        seed=params.seed,
        stop=tuple(params.stop),
        stop_token_ids=frozenset(params.stop_token_ids),
        ignore_eos=params.ignore_eos,
        min_tokens=params.min_tokens,
        repetition_penalty=params.repetition_penalty or 1.0,
        presence_penalty=params.presence_penalty,
        frequency_penalty=params.frequency_penalty,
        logit_bias=dict(params.logit_bias),
        logprobs=params.logprobs if params.HasField("logprobs") else None,
    )


def engine_request(
    request_id: int, submit: worker_pb2.Submit, identity: ModelIdentity, secret: bytes
) -> EngineRequest:
    return EngineRequest(
        request_id=request_id,
        tokens=unpack_tokens(submit.token_ids),
        sampling=sampling(submit.sampling),
        space=identity.key_space(adapter=submit.adapter, tenant=submit.tenant, secret=secret),
        priority=submit.priority,
        resumed_tokens=submit.resumed_tokens,
        dead_from=dead_from(
            submit.hints.breakpoints,
            keep_nothing=submit.hints.retention == common_pb2.CACHE_RETENTION_NONE,
            in_session=bool(submit.hints.session_id),
            end_session=submit.hints.end_session,
        ),
    )


def chunk(stream_id: int, output: Output, decode: Decode | None = None) -> worker_pb2.Chunk:
    """One step's output for one request, its client part serialized already. `decode` gives the
    texts of single tokens, for log-probabilities.
    """
    message = worker_pb2.Chunk(stream_id=stream_id)
    if output.admitted is not None:
        message.admission.cached_tokens = output.admitted.cached_tokens
        message.admission.queue_ms = output.admitted.queue_ms
    finished = output.finished
    response = router_pb2.GenerateResponse()
    if output.token_ids or output.text:
        added = response.outputs.add(text=output.text, token_ids=pack_tokens(output.token_ids))
        for one in output.logprobs:
            added.logprobs.append(_logprobs(one, decode))
    if finished is not None:
        _finish(message.end, response, finished)
    message.response = response.SerializeToString()
    return message


def _logprobs(found: TokenLogprobs, decode: Decode | None) -> router_pb2.TokenLogprobs:
    def one(token: int, logprob: float) -> router_pb2.TokenLogprob:
        text = "" if decode is None else decode([token])
        return router_pb2.TokenLogprob(token=token, text=text, logprob=logprob)

    return router_pb2.TokenLogprobs(
        chosen=one(found.token, found.logprob), top=[one(*pair) for pair in found.top]
    )


def _finish(end: worker_pb2.End, response: router_pb2.GenerateResponse, finished: Finished) -> None:
    reason = _REASONS[finished.reason]
    usage = common_pb2.Usage(
        prompt_tokens=finished.prompt_tokens,
        cached_tokens=finished.cached_tokens,
        completion_tokens=finished.completion_tokens,
    )
    timing = common_pb2.Timing(
        queue_ms=finished.queue_ms,
        prefill_ms=finished.prefill_ms,
        decode_ms=finished.decode_ms,
        step_ms=finished.step_ms,
        batch_size=finished.batch_size,
    )
    end.finish_reason = reason
    end.usage.CopyFrom(usage)
    end.timing.CopyFrom(timing)
    end.preemptions = finished.preemptions
    if finished.error is not None:
        end.code = finished.error.code.value[0]
        end.message = str(finished.error)
        end.detail.CopyFrom(finished.error.detail())
        return
    output = response.outputs[0] if response.outputs else response.outputs.add()
    output.finish_reason = reason
    output.stop_reason = finished.stop_reason
    response.usage.CopyFrom(usage)
    response.timing.CopyFrom(timing)
