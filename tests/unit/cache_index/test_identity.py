from __future__ import annotations

import dataclasses
import json

import pytest

from cache_index.base import WorkerId
from cache_index.fleet import WorkerDescription, WorkerRecord
from cache_index.identity import FieldDifference, ModelIdentity
from cache_index.names import Names, model_tag
from kvroute.errors import Mismatch
from kvroute.v1 import common_pb2

IDENTITY = ModelIdentity(
    served_name="chat",
    model_id="m",
    revision="r",
    dtype="float32",
    block_size=32,
    vocab_size=50_000,
)


def test_fields_are_those_of_the_message() -> None:
    ours = [field.name for field in dataclasses.fields(ModelIdentity)]
    assert ours == [field.name for field in common_pb2.ModelIdentity.DESCRIPTOR.fields]


def test_identity_survives_json_and_proto() -> None:
    assert ModelIdentity.from_json(IDENTITY.to_json()) == IDENTITY
    assert ModelIdentity.from_proto(IDENTITY.to_proto()) == IDENTITY


@pytest.mark.parametrize(
    "change", [{"block_size": "16"}, {"extra": 1}, {"model_id": None}, {"vocab_size": 1.5}]
)
def test_wrong_json_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="identity"):
        ModelIdentity.from_json(json.dumps(json.loads(IDENTITY.to_json()) | change))


def test_difference_names_each_field_and_both_values() -> None:
    other = dataclasses.replace(IDENTITY, revision="s", block_size=16)
    assert IDENTITY.difference(other) == [
        FieldDifference("revision", "r", "s"),
        FieldDifference("block_size", "32", "16"),
    ]
    assert IDENTITY.difference(IDENTITY) == []
    error = IDENTITY.difference(other)[1].error("worker w1")
    assert isinstance(error, Mismatch)
    assert str(error).startswith("block_size is '32' here and '16' in worker w1;")


def test_registry_value_is_read_back() -> None:
    described = WorkerDescription(
        WorkerId("w"), "host:1", IDENTITY, total_blocks=5, adapters=("x", "y"), draining=True
    )
    value = f'{{"slot":3,"epoch":"1733000000000001","worker":{described.to_json()}}}'
    record = WorkerRecord.from_json(WorkerId("w"), value, seq=4)
    assert (record.slot, record.epoch, record.seq) == (3, 1733000000000001, 4)
    assert (record.identity, record.adapters) == (IDENTITY, ("x", "y"))
    assert record.draining and record.total_blocks == 5


@pytest.mark.parametrize("value", ["", "[]", "{}", '{"slot":1,"epoch":"x","worker":{}}', "null"])
def test_malformed_registry_value_is_a_value_error(value: str) -> None:
    with pytest.raises(ValueError):
        WorkerRecord.from_json(WorkerId("w"), value)


def test_models_with_other_names_or_schemes_have_other_keys() -> None:
    assert len({model_tag("a"), model_tag("b"), model_tag("a", "scheme-2"), model_tag("as")}) == 4
    names = Names.of("a")
    assert names.registry == f"kvroute:{{{model_tag('a')}}}:reg"
    assert names.meta(WorkerId("w")) == f"kvroute:{{{names.tag}}}:w:w:m"
