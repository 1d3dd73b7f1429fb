"""A decoder-only transformer, as far as its memory and its time depend on it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class TransformerShape:
    """Sizes, and parameters by where they lie.

    Attributes:
        name: of the architecture.
        layers: decoder layers.
        hidden: width of the residual stream.
        heads: of queries.
        kv_heads: of keys and values.
        head_dim: of a head.
        feed_forward: width of a dense layer's inner features.
        is_gated: whether the feed-forward has a gate, three matrices instead of two.
        vocabulary: tokens.
        experts: in a layer; 0: none.
        experts_per_token: that a token meets.
        expert_feed_forward: inner width of an expert.
        shared_feed_forward: inner width of what every token meets beside its experts.
        dense_layers: layers without experts; all of them where there are none.
        embedding: parameters.
        head: parameters; 0 where it is the embedding.
        layer: parameters of all layers but their experts.
        expert: parameters of all experts.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    feed_forward: int
    is_gated: bool = True
    vocabulary: int
    experts: int = 0
    experts_per_token: int = 0
    expert_feed_forward: int = 0
    shared_feed_forward: int = 0
    dense_layers: int
    embedding: int
    head: int
    layer: int
    expert: int = 0

    @property
    def parameters(self) -> int:
        """All of them."""
        return self.embedding + self.head + self.layer + self.expert

    @property
    def active(self) -> int:
        """Parameters that a token is multiplied by: no embedding, of the experts those that it meets."""
        share = self.experts_per_token / self.experts if self.experts else 0.0
        return round(self.layer + self.expert * share) + (self.head or self.embedding)

    def flops(self, tokens: int, sequence: int) -> int:
        """Of a step without recomputation, a multiply-add as two: 6 for each active parameter and token, and attention.

        Half of the scores of a causal attention are computed. Source: Narayanan et al., Efficient Large-Scale Language
        Model Training on GPU Clusters Using Megatron-LM, arXiv:2104.04473, appendix.

        Args:
            tokens: of the step.
            sequence: tokens that attend to each other.
        """
        attention = 3 * 2 * 2 * tokens * sequence * self.heads * self.head_dim * self.layers // 2
        return 6 * self.active * tokens + attention
