"""Profiles: the same function, compiled in several ways.

A profile is a frozen, versioned value. Fields in ``PER_SCOPE`` can be overridden for
parts of a model: ``overrides={"encoder.layer.*.attention": {"rounds": 1}}``; the last
pattern that matches a scope wins.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
)

from ditto.errors import SetupError

PER_SCOPE = ("exp", "gelu", "fit_error", "margin", "rounds")


class Profile(BaseModel):
    """How a function is computed."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str = Field(max_length=64)
    version: Literal[1] = 1
    engine: Literal["spu", "rings-in-spu", "rings"]
    """``spu``: one SPU program in the 64-bit ring. ``rings-in-spu``: SPU in both rings
    with fixed fracs, casts between. ``rings``: our protocols wherever we have them."""
    exp: Literal["stock", "puma", "summands"] = "stock"
    """In softmax. ``puma``: (1 + x/32)^32 and 0 below -14. ``summands``: the
    product of the exponentials of what the parties hold, and squarings elsewhere."""
    gelu: Literal["stock", "puma", "quad", "accurate"] = "stock"
    """``quad``: 0.125 x^2 + 0.25 x + 0.5, for models distilled with it.
    ``accurate``: parabolas fitted to the calibrated range."""
    casts: Literal["ours", "paper"] = "ours"
    fit_error: Annotated[float, Field(gt=0, le=1)] = 0.002
    """The largest error of a fitted function on the calibrated range, of parabolas
    sqrt(2) times the root of its mean square; less where its results are small, more
    where they are large and their range is wide. ``ditto.owner`` keeps a quarter of it
    for prompts of language models and the tokens after them."""
    margin: Annotated[float, Field(ge=1, le=64)] = 2.0
    """How far beyond its calibrated range every value may go."""
    rounds: Literal[1, 2, "mixed"] = 2
    """Of a recast; one round sends more bits. ``mixed``: one where results are few."""
    range_check: bool = False
    """Whether the client learns that a value has left its range, and the answer may be
    wrong with it."""
    provable: bool = False
    """Whether recasts are those of which each message can be proved, for audits."""
    remainders: Literal["none", "few", "all"] = "none"
    """Which products also take what rounding leaves of their operands. ``few``: where
    that costs little, and the weights of a softmax. ``ditto.owner`` chooses ``all`` for
    prompts of language models with outliers and ``few`` for the tokens after them."""
    overrides: tuple[tuple[str, Mapping[str, object]], ...] = Field(
        default=(), strict=False
    )

    @field_validator("overrides", mode="before")
    @classmethod
    def _pairs(cls, given: object) -> object:
        if not isinstance(given, Mapping | list | tuple):
            return given
        pairs = given.items() if isinstance(given, Mapping) else given
        return tuple(tuple(p) if isinstance(p, list | tuple) else p for p in pairs)

    def at(self, scope: str) -> "Profile":
        """This profile as it holds in a scope."""
        changes: dict[str, object] = {}
        for pattern, fields in self.overrides:
            if fnmatchcase(scope, pattern) or fnmatchcase(scope, f"{pattern}/*"):
                changes |= dict(fields)
        if not changes:
            return self
        unknown = set(changes) - set(PER_SCOPE)
        if unknown:
            raise SetupError(
                f"Profile {self.name!r} overrides {sorted(unknown)} for a scope; only "
                f"{', '.join(PER_SCOPE)} can differ between scopes."
            )
        return self.replace(**changes)

    def replace(self, **changes: object) -> "Profile":
        """This profile with some fields changed."""
        try:
            return Profile.model_validate({**self.model_dump(), **changes})
        except ValidationError as error:
            raise SetupError(f"Not a profile: {_reasons(error)}.") from None


PROFILES: Mapping[str, Profile] = {
    p.name: p
    for p in (
        Profile(name="spu", engine="spu"),
        Profile(name="puma", engine="spu", exp="puma", gelu="puma"),
        Profile(
            name="paper", engine="rings-in-spu", exp="puma", gelu="quad", casts="paper"
        ),
        Profile(
            name="ditto",
            engine="rings",
            exp="summands",
            gelu="accurate",
            rounds="mixed",
            range_check=True,
        ),
    )
}
"""``spu`` and ``puma`` are the engine run bare, ``paper`` is the Ditto paper's way."""


def find_profile(profile: str | Profile) -> Profile:
    """A profile by name, or itself."""
    if isinstance(profile, Profile):
        return profile
    if profile not in PROFILES:
        raise SetupError(
            f"There is no profile {profile!r}; there are {', '.join(PROFILES)}."
        )
    return PROFILES[profile]


def _reasons(error: ValidationError) -> str:
    """What is wrong with each field, in a sentence."""
    return "; ".join(
        f"{'.'.join(map(str, each['loc']))}={each['input']!r}: "
        f"{each['msg'][:1].lower()}{each['msg'][1:]}"
        for each in error.errors(include_url=False)
    )
