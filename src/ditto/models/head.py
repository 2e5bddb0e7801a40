"""What a model is used for, under the names of Hugging Face's tasks."""

from enum import StrEnum


class Head(StrEnum):
    """A head; its value is the name of the task."""

    TEXT_CLASSIFICATION = "text-classification"
    """Logits of the labels of a text."""
    TOKEN_CLASSIFICATION = "token-classification"  # noqa: S105
    """Logits of the labels of every token."""
    FILL_MASK = "fill-mask"
    """Logits of the vocabulary at every token."""
    TEXT_GENERATION = "text-generation"
    """Logits of the token that follows."""
    QUESTION_ANSWERING = "question-answering"
    """Logits of every token: that an answer begins with it, that one ends with it."""
    FEATURE_EXTRACTION = "feature-extraction"
    """An embedding of the text: the mean of the last hidden states, or what the folder
    says."""
    POOLER_OUTPUT = "pooler-output"
    """Hugging Face's ``pooler_output``: an embedding from the first token."""

    @property
    def is_embedding(self) -> bool:
        """Whether the answer is an embedding; all others are logits."""
        return self in (Head.FEATURE_EXTRACTION, Head.POOLER_OUTPUT)

    @property
    def is_language(self) -> bool:
        """Whether the logits are of the vocabulary."""
        return self in (Head.FILL_MASK, Head.TEXT_GENERATION)

    @property
    def is_per_token(self) -> bool:
        """Whether the answer to a text has a row for every token."""
        return self in (
            Head.TOKEN_CLASSIFICATION,
            Head.FILL_MASK,
            Head.TEXT_GENERATION,
            Head.QUESTION_ANSWERING,
        )
