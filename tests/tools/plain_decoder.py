#!/usr/bin/env python3
"""What a model file computes, token by token in double precision: an oracle that sees nothing but the file (cria_reader/).

  plain_decoder.py FILE TOKEN...    prints the logits of the last token, and the experts that each layer chose for it

It follows docs/model_format.md, not the runtime. Slow, for small files. Not here: recurrences and convolutions.
"""
import argparse
import math
import struct
import sys
from operator import mul
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from cria_reader.config_fields import (ATTENTION, CLAMPED_SWIGLU, CONVOLUTION, DELTA, EXPERTS, GELU, KIND_FLAGS, LATENT,  # noqa: E402
                                       LAYER_NORM, LEARNED_POSITIONS, NO_KIND, NO_TABLE, RELU_SQUARED, SILU, STATE_SPACE, TIED)
from cria_reader.model_file import ModelFile  # noqa: E402

SOFTMAX, SIGMOID = 1, 2


def dot(a, b):
    return sum(map(mul, a, b))


def times(x, factor):
    return [value * factor for value in x]


def added(x, y, factor=1.0):
    return [a + b * factor for a, b in zip(x, y)]


def sigmoid(x):
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def softmax(scores, sink=None):
    highest = max(scores if sink is None else [*scores, sink])
    shares = [math.exp(score - highest) for score in scores]
    total = sum(shares) + (0 if sink is None else math.exp(sink - highest))
    return times(shares, 1 / total)


def capped(x, cap):
    return cap * math.tanh(x / cap) if cap else x


def rms_norm(x, weights, epsilon):
    scale = 1 / math.sqrt(dot(x, x) / len(x) + epsilon)
    return [value * scale * weight for value, weight in zip(x, weights)]


def norm(x, weights, epsilon, form):
    if form != LAYER_NORM:
        return rms_norm(x, weights, epsilon)
    mean = sum(x) / len(x)
    return added(rms_norm([value - mean for value in x], weights[:len(x)], epsilon), weights[len(x):])


def heads_of(x, width):
    return [x[at:at + width] for at in range(0, len(x), width)]


def best(values, n):
    """Places of the n largest; of equal ones the first."""
    return sorted(range(len(values)), key=lambda i: (-values[i], i))[:n]


def weighted_sum(weights, rows):
    return [dot(weights, column) for column in zip(*rows)]


class Layer:
    def __init__(self, config, kind, tensors):
        self.config, self.kind, self.tensors = config, kind, tensors
        self.flags = {name for bit, name in enumerate(KIND_FLAGS) if kind["flags"] >> bit & 1}
        self.rows = []      # what positions left for those after them
        self.states = {}    # of value heads
        self.chosen = None  # experts of the last token

    def __getitem__(self, name):
        return self.kind[name]

    def multiply(self, name, x, index=0):
        """By a matrix, or one of a stack, and its bias."""
        matrix = self.tensors[name][index]
        y = [dot(row, x) for row in matrix]
        bias = self.tensors.get(name + ".bias")
        return y if bias is None else added(y, bias[index * len(y):(index + 1) * len(y)])

    def norm(self, name, x):
        return norm(x, self.tensors[name], self["norm_epsilon"], self["norm"]) if name in self.tensors else x

    def inner_norm(self, name, x):
        return rms_norm(x, self.tensors[name], self["inner_epsilon"]) if name in self.tensors else x

    def grow(self, x, position):
        if not self["query_growth"]:
            return x
        return times(x, 1 + self["query_growth"] * math.log(1 + position // self["query_growth_period"]))

    def shares(self, scores, sink=None):
        first = max(0, len(scores) - self["window"]) if self["window"] else 0
        shown = [capped(score * self["score_multiplier"], self["score_cap"]) for score in scores[first:]]
        return [0.0] * first + softmax(shown, sink)

    def activated(self, gate, up):
        if self["activation"] == CLAMPED_SWIGLU:
            limit = self["activation_limit"]
            gates = [min(g, limit) for g in gate]
            return [(min(max(u, -limit), limit) + 1) * g * sigmoid(self["activation_alpha"] * g) for g, u in zip(gates, up)]
        act = {SILU: lambda x: x * sigmoid(x), RELU_SQUARED: lambda x: max(x, 0) ** 2,
               GELU: lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))}[self["activation"]]
        return [act(u) for u in up] if gate is None else [act(g) * u for g, u in zip(gate, up)]

    # Mixers ----------------------------------------------------------------------------------

    def mix(self, x, position, turn, rows_of_kinds):
        mixers = {ATTENTION: self.attention, LATENT: self.latent, CONVOLUTION: self.short_convolution, DELTA: self.delta_rule,
                  STATE_SPACE: self.state_space}
        return mixers[self["mixer"]](x, position, turn, rows_of_kinds)

    def heads(self, name, x, width):
        """Queries or keys, before they are turned."""
        y = self.multiply(name, x)
        if "projection_norms" in self.flags:
            y = self.inner_norm(name + "_norm", y)
        of_heads = heads_of(y, width)
        if "head_norms" in self.flags:
            of_heads = [self.inner_norm(name + "_norm", head) for head in of_heads]
        return [self.clipped(head) for head in of_heads]

    def clipped(self, x):
        clip = self["qkv_clip"]
        return [min(max(value, -clip), clip) for value in x] if clip else x

    def attention(self, x, position, turn, rows_of_kinds):
        queries = [self.grow(turn(head, self["rope_table"]), position) for head in self.heads("q", x, self["key_dim"])]
        if self["shared_with"] == NO_KIND:
            keys = self.heads("k", x, self["key_dim"])
            same = "keys_as_values" in self.flags
            values = heads_of(self.multiply("k" if same else "v", x), self["value_dim"])
            if "value_norms" in self.flags:
                values = [self.inner_norm("v_norm", head) for head in values]
            self.rows.append(([turn(head, self["rope_table"]) for head in keys], [self.clipped(head) for head in values]))
        rows = self.rows if self["shared_with"] == NO_KIND else rows_of_kinds[self["shared_with"]]
        y, n_served = [], self["n_query_heads"] // self["n_key_heads"]
        for h, query in enumerate(queries):
            sink = self.tensors["sinks"][h] if "sinks" in self.flags else None
            shares = self.shares([dot(query, keys[h // n_served]) for keys, _ in rows], sink)
            y += weighted_sum(shares, [values[h // n_served] for _, values in rows])
        if "mixer_gate" in self.flags:
            y = [value * sigmoid(gate) for value, gate in zip(y, self.multiply("mixer_gate", x))]
        return self.multiply("o", self.inner_norm("mixer_inner_norm", y))

    def latent(self, x, position, turn, _):
        compressed = self.inner_norm("q_down_norm", self.multiply("q_down", x)) if self["query_rank"] else x
        own = self["key_dim"] - self["shared_key_dim"]
        shared_key = turn(self.multiply("k", x), self["rope_table"]) if self["shared_key_dim"] else []
        self.rows.append((self.inner_norm("latent_norm", self.multiply("latent_down", x)), shared_key))
        y = []
        for h, query in enumerate(heads_of(self.multiply("q", compressed), self["key_dim"])):
            turned = self.grow(turn(query[own:], self["rope_table"]), position)
            absorbed = self.grow(self.multiply("key_up", query[:own], h), position)
            shares = self.shares([dot(absorbed, latent) + dot(turned, key) for latent, key in self.rows])
            y += self.multiply("value_up", weighted_sum(shares, [latent for latent, _ in self.rows]), h)
        return self.multiply("o", y)

    def short_convolution(self, x, *_):
        self.rows.append([k * v for k, v in zip(self.multiply("k", x), self.multiply("v", x))])
        newest = self.rows[-self["conv_taps"]:]
        taps = heads_of(self.tensors["conv"], len(x))[-len(newest):]
        y = [sum(w * u for w, u in zip(weights, values)) for weights, values in zip(zip(*taps), zip(*newest))]
        if "conv.bias" in self.tensors:
            y = added(y, self.tensors["conv.bias"])
        return self.multiply("o", [a * b for a, b in zip(self.multiply("q", x), y)])

    def convolved_heads(self, x):
        """Heads of q, k and v after their convolution and silu; each key head as often as it serves a value head."""
        rows = [self.multiply(name, x) for name in "qkv"]
        self.rows.append(sum(rows, []))
        newest = self.rows[-self["conv_taps"]:]
        taps = heads_of(self.tensors["conv"], len(newest[0]))[-len(newest):]
        y = [dot(weights, values) for weights, values in zip(zip(*taps), zip(*newest))]
        if "conv.bias" in self.tensors:
            y = added(y, self.tensors["conv.bias"])
        y = [value * sigmoid(value) for value in y]
        n_keys, n_served = len(rows[0]), self["n_value_heads"] // self["n_key_heads"]
        queries, keys = (heads_of(part, self["key_dim"]) for part in (y[:n_keys], y[n_keys:2 * n_keys]))
        values = heads_of(y[2 * n_keys:], self["value_dim"])
        return [(queries[h // n_served], keys[h // n_served], value) for h, value in enumerate(values)]

    def steps(self, x):
        """ln(1 + e^...) of each value head."""
        sums = added(self.multiply("decay_in", x), self.tensors["decay_bias"])
        return [max(s, 0) + math.log1p(math.exp(-abs(s))) for s in sums]

    def decayed(self, h, step):
        """The state of a value head, a row for each element of a key."""
        factor = math.exp(self.tensors["decay"][h] * step)
        state = self.states.get(h, [[0.0] * self["value_dim"]] * self["key_dim"])
        return [times(row, factor) for row in state]

    def remember(self, h, state, key, value):
        self.states[h] = [added(row, value, element) for row, element in zip(state, key)]

    def delta_rule(self, x, *_):
        def unit(head):
            return times(head, 1 / math.sqrt(dot(head, head) + self["unit_epsilon"]))

        y, steps, betas = [], self.steps(x), self.multiply("beta_in", x)
        for h, (query, key, value) in enumerate(self.convolved_heads(x)):
            state, key = self.decayed(h, steps[h]), unit(key)
            missing = times(added(value, weighted_sum(key, state), -1), sigmoid(betas[h]))
            self.remember(h, state, key, missing)
            out = weighted_sum(times(unit(query), self["key_dim"] ** -0.5), self.states[h])
            y += self.inner_norm("mixer_inner_norm", out)
        return self.multiply("o", [value * gate * sigmoid(gate) for value, gate in zip(y, self.multiply("mixer_gate", x))])

    def state_space(self, x, *_):
        y, steps = [], self.steps(x)
        for h, (query, key, value) in enumerate(self.convolved_heads(x)):
            self.remember(h, self.decayed(h, steps[h]), key, times(value, steps[h]))
            y += added(weighted_sum(query, self.states[h]), value, self.tensors["skip"][h])
        y = [value * gate * sigmoid(gate) for value, gate in zip(y, self.multiply("mixer_gate", x))]
        width = len(y) // (self["n_key_heads"] if "group_norms" in self.flags else 1)
        groups = zip(heads_of(y, width), heads_of(self.tensors["mixer_inner_norm"], width))
        return self.multiply("o", sum((rms_norm(group, weights, self["inner_epsilon"]) for group, weights in groups), []))

    # Feed-forwards ---------------------------------------------------------------------------

    def feed_forward(self, x, stream):
        return self.experts(x, stream) if self["feed_forward"] == EXPERTS else self.mlp("", x)

    def mlp(self, prefix, x, index=0):
        gate = self.multiply(prefix + "gate", x, index) if "gated" in self.flags else None
        y = self.activated(gate, self.multiply(prefix + "up", x, index))
        return self.multiply(prefix + "down", y if prefix else self.inner_norm("ffn_inner_norm", y), index)

    def choose(self, logits):
        """Experts, and the weight of each."""
        scores = softmax(logits) if self["router_score"] == SOFTMAX else [sigmoid(logit) for logit in logits]
        ranked = list(logits if self["router_score"] == SOFTMAX else scores)
        if "choice_bias" in self.flags:
            ranked = added(scores, self.tensors["choice_bias"])
        if self["n_groups"]:
            groups = heads_of(ranked, len(ranked) // self["n_groups"])
            sums = [sum(sorted(group, reverse=True)[:self["group_rank"]]) for group in groups]
            kept = best(sums, self["n_groups_chosen"])
            ranked = [value if i * self["n_groups"] // len(ranked) in kept else -math.inf for i, value in enumerate(ranked)]
        chosen = best(ranked, self["n_chosen"])
        weights = [scores[i] for i in chosen]
        if "normalized_weights" in self.flags:
            weights = times(weights, 1 / (sum(weights) + self["router_epsilon"]))
        weights = times(weights, self["router_scale"])
        if "expert_scale" in self.flags:
            weights = [weight * self.tensors["expert_scale"][i] for weight, i in zip(weights, chosen)]
        return chosen, weights

    def experts(self, x, stream):
        read = rms_norm(stream, self.tensors["router_norm"], self["inner_epsilon"]) if "router_norm" in self.flags else x
        self.chosen, weights = self.choose(self.multiply("router", read))
        own_input = self.norm("expert_norm", stream) if "branch_norms" in self.flags else x
        y = [0.0] * len(x)
        for i, weight in zip(self.chosen, weights):
            y = added(y, self.mlp("expert_", own_input, i), weight)
        y = self.norm("expert_out_norm", y)
        if not self["d_ff"]:
            return y
        beside = self.mlp("", x)
        if "shared_gate" in self.flags:
            beside = times(beside, sigmoid(dot(self.tensors["shared_gate"], x)))
        return added(y, self.norm("shared_out_norm", beside))


class Decoder:
    """One conversation."""

    def __init__(self, model):
        self.config = model.config
        of_layers = [{} for _ in self.config["layers"]]
        self.tensors = {}
        for tensor in model.tensors.values():
            rows = [list(struct.unpack(f"<{len(row) // 4}f", row)) for row in model.rows(tensor)]
            values = rows[0] if tensor.is_vector else heads_of(rows, tensor.rows)
            place, name = (of_layers[tensor.layer], tensor.name.split(".", 2)[2]) if tensor.name.startswith("layers.") else (
                self.tensors, tensor.name)
            place[name] = values
        kinds = [self.config["kinds"][number] for number in self.config["layers"]]
        self.layers = [Layer(self.config, kind, tensors) for kind, tensors in zip(kinds, of_layers)]
        self.position = 0

    def angles(self):
        """Cosines and sines of each table at this position."""
        at, found = 0, []
        for table in self.config["rope_tables"]:
            n = table["n_pairs"]
            angles = times(self.tensors["rope"][at:at + n], self.position)
            found.append([(math.cos(angle) * table["factor"], math.sin(angle) * table["factor"]) for angle in angles])
            at += 2 * n if table["original_context"] else n
        return found

    def step(self, token):
        """Logits of the token that follows."""
        config, tables = self.config, self.angles()

        def turn(head, table):
            if table == NO_TABLE:
                return head
            turns, half = tables[table], len(tables[table])
            first = [a * cos - b * sin for a, b, (cos, sin) in zip(head, head[half:], turns)]
            second = [b * cos + a * sin for a, b, (cos, sin) in zip(head, head[half:], turns)]
            return first + second + head[2 * half:]

        x = times(self.tensors["embedding"][0][token], config["embedding_multiplier"])
        if config["flags"] & LEARNED_POSITIONS:
            d = len(x)
            x = added(x, self.tensors["positions"][self.position * d:(self.position + 1) * d])
        embedded, rows_of_kinds = x, {}
        for number, layer in enumerate(self.layers):
            mixed = layer.mix(layer.norm("mixer_norm", x), self.position, turn, rows_of_kinds)
            x = added(x, layer.norm("mixer_out_norm", mixed), config["residual_multiplier"])
            rows_of_kinds[config["layers"][number]] = layer.rows
            fed = layer.feed_forward(layer.norm("ffn_norm", x), x)
            x = added(x, layer.norm("ffn_out_norm", fed), config["residual_multiplier"])
            if "per_layer_input" in layer.flags:
                x = added(x, self.per_layer(number, layer, token, embedded, x))
            if "layer_scale" in layer.flags:
                x = times(x, layer.tensors["layer_scale"][0])
        self.position += 1
        x = norm(x, self.tensors["final_norm"], config["norm_epsilon"], config["final_norm"])
        head = self.tensors["embedding" if config["flags"] & TIED else "lm_head"][0]
        return [capped(dot(row, x) / config["logits_divisor"], config["logits_cap"]) for row in head]

    def per_layer(self, number, layer, token, embedded, x):
        config = self.config
        projected = times([dot(row, embedded) for row in self.tensors["per_layer_projection"][number]],
                          config["per_layer_input_multiplier"])
        row = self.tensors["per_layer_table"][0][token * len(self.layers) + number]
        s = added(rms_norm(projected, self.tensors["per_layer_norm"], config["norm_epsilon"]), row,
                  config["per_layer_table_multiplier"])
        gated = layer.activated(layer.multiply("per_layer_gate", x), times(s, config["per_layer_sum_multiplier"]))
        return layer.norm("per_layer_out_norm", layer.multiply("per_layer_out", gated))

    def chosen(self):
        """Of the last token, by layers that have experts: their numbers, ascending."""
        return {number: sorted(layer.chosen) for number, layer in enumerate(self.layers) if layer.chosen is not None}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("tokens", type=int, nargs="+")
    options = parser.parse_args()
    decoder = Decoder(ModelFile(options.file.read_bytes()))
    for token in options.tokens:
        logits = decoder.step(token)
    print(*(f"{logit:.6g}" for logit in logits))
    for number, experts in decoder.chosen().items():
        print(f"layer {number}:", *experts)


if __name__ == "__main__":
    main()
