"""What all workers of a served model must share for their caches to be one."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields

from cache_index.keys import KeySpace
from kvroute.errors import Mismatch
from kvroute.v1 import common_pb2


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """One field in which two identities differ."""

    field: str
    ours: str
    theirs: str

    def error(self, whose: str = "the fleet") -> Mismatch:
        return Mismatch(
            f"{self.field} is {self.ours!r} here and {self.theirs!r} in {whose}; "
            "all workers of one served model must agree",
            field=self.field,
            value=self.ours,
            limit=self.theirs,
        )


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """The fields of the message of the same name (protos/kvroute/v1/common.proto)."""

    served_name: str
    model_id: str = ""
    revision: str = ""
    dtype: str = ""
    block_size: int = 16
    key_scheme: str = ""
    key_check: str = ""
    tokenizer: str = ""
    chat_template: str = ""
    vocab_size: int = 0
    max_context: int = 0

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> ModelIdentity:
        """Raises ValueError when a field is missing, unknown or of another type."""
        return cls.from_fields(json.loads(text))

    @classmethod
    def from_fields(cls, found: object) -> ModelIdentity:
        """Raises ValueError when a field is missing, unknown or of another type."""
        if not isinstance(found, dict):
            raise ValueError("an identity is a JSON object")
        kinds = {field.name: int if field.type == "int" else str for field in fields(cls)}
        if found.keys() != kinds.keys():
            raise ValueError(f"identity fields {sorted(found)} are not {sorted(kinds)}")
        for name, kind in kinds.items():
            if type(found[name]) is not kind:
                raise ValueError(f"identity field {name} is not {kind.__name__}")
        return cls(**found)

    def to_proto(self) -> common_pb2.ModelIdentity:
        return common_pb2.ModelIdentity(**asdict(self))

    @classmethod
    def from_proto(cls, message: common_pb2.ModelIdentity) -> ModelIdentity:
        return cls(**{field.name: getattr(message, field.name) for field in fields(cls)})

    def difference(self, other: ModelIdentity) -> list[FieldDifference]:
        """Fields that differ, in order of declaration; empty when the two fit together."""
        return [
            FieldDifference(
                field.name, str(getattr(self, field.name)), str(getattr(other, field.name))
            )
            for field in fields(self)
            if getattr(self, field.name) != getattr(other, field.name)
        ]

    def key_space(self, *, adapter: str = "", tenant: str = "", secret: bytes = b"") -> KeySpace:
        """The space of one adapter's and one tenant's block keys under this model."""
        return KeySpace(
            model_id=self.model_id,
            revision=self.revision,
            dtype=self.dtype,
            adapter=adapter,
            tenant=tenant,
            block_size=self.block_size,
            secret=secret,
        )
