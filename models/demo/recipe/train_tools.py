#!/usr/bin/env python3
"""Trains an adapter (LoRA) that lets the demo model call tools, and measures it on held-out questions.

The base model stays as it is. Half of the conversations have tools; the others are those that the base was trained on, so
that what it knows stays. In the last part every second step sees merged weights rounded to int4. Writes the adapter as PEFT
does, tool_questions.jsonl and tool_eval.json.
"""
import argparse
import json
import math
import os
import random
import re
import time

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

import content as C
from evaluate import accuracy, generate
from make_corpus import Writer, render_chat
from tool_conversations import conversation, questions
from train import document_mask, quantize_, round_to_int

TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
LENGTH = 512


class LoraLinear(torch.nn.Module):
    def __init__(self, base, rank, alpha):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.lora_A = torch.nn.Parameter(torch.randn(rank, base.in_features) * base.in_features ** -0.5)
        self.lora_B = torch.nn.Parameter(torch.zeros(base.out_features, rank))
        self.scale, self.is_rounded = alpha / rank, False

    def merged(self):
        return self.base.weight + self.scale * self.lora_B @ self.lora_A

    def forward(self, x):
        weight = self.merged()
        if self.is_rounded:
            weight = weight + (round_to_int(weight, 4, 64) - weight).detach()
        return torch.nn.functional.linear(x, weight.to(x.dtype))


class LoraEmbedding(torch.nn.Module):
    """Of the embedding, which the output layer shares."""

    def __init__(self, base, rank, alpha):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.lora_embedding_A = torch.nn.Parameter(torch.zeros(rank, base.num_embeddings))
        self.lora_embedding_B = torch.nn.Parameter(torch.randn(base.embedding_dim, rank) * rank ** -0.5)
        self.scale = alpha / rank

    def merged(self):
        return self.base.weight + self.scale * (self.lora_embedding_B @ self.lora_embedding_A).T

    def forward(self, ids):
        return torch.nn.functional.embedding(ids, self.merged())


class TiedOutput(torch.nn.Module):
    def __init__(self, embedding):
        super().__init__()
        self.embedding = [embedding]  # no part of it

    def forward(self, x):
        return torch.nn.functional.linear(x, self.embedding[0].merged())


def add_adapter(model, rank, alpha):
    model.requires_grad_(False)
    added = {}
    for name, module in list(model.named_modules()):
        if name.split(".")[-1] in TARGETS:
            parent = model.get_submodule(name.rsplit(".", 1)[0])
            added[name] = LoraLinear(module, rank, alpha)
            setattr(parent, name.rsplit(".", 1)[1], added[name])
    embedding = LoraEmbedding(model.model.embed_tokens, rank, alpha)
    model.model.embed_tokens = embedding
    model.lm_head = TiedOutput(embedding)
    return added, embedding


def save_adapter(added, embedding, rank, alpha, base, path):
    os.makedirs(path, exist_ok=True)
    tensors = {f"base_model.model.{name}.{which}.weight": getattr(module, which).detach().to(torch.bfloat16).contiguous()
               for name, module in added.items() for which in ("lora_A", "lora_B")}
    tensors |= {f"base_model.model.model.embed_tokens.{which}": getattr(embedding, which).detach().to(torch.bfloat16).contiguous()
                for which in ("lora_embedding_A", "lora_embedding_B")}
    # The output layer is the same matrix: what is added to it is the same, the other way round.
    tensors["base_model.model.lm_head.lora_A.weight"] = tensors["base_model.model.model.embed_tokens.lora_embedding_B"].T.contiguous()
    tensors["base_model.model.lm_head.lora_B.weight"] = tensors["base_model.model.model.embed_tokens.lora_embedding_A"].T.contiguous()
    save_file(tensors, os.path.join(path, "adapter_model.safetensors"), metadata={"format": "pt"})
    os.chmod(os.path.join(path, "adapter_model.safetensors"), 0o644)
    config = {"base_model_name_or_path": base, "bias": "none", "fan_in_fan_out": False, "lora_alpha": alpha, "lora_dropout": 0.0,
              "peft_type": "LORA", "r": rank, "target_modules": [*TARGETS, "embed_tokens", "lm_head"], "task_type": "CAUSAL_LM", "use_dora": False, "use_rslora": False}
    with open(os.path.join(path, "adapter_config.json"), "w", encoding="utf-8") as out:
        json.dump(config, out, indent=2)
        out.write("\n")


class Documents:
    """Endless rows of LENGTH + 1 tokens, whole documents each, with the weight of each token in the loss."""

    def __init__(self, tokenizer, template, rng, tool_share, user_weight):
        self.tokenizer, self.template, self.rng = tokenizer, template, rng
        self.writer, self.tool_share, self.user_weight = Writer(random.Random(1)), tool_share, user_weight
        ids = tokenizer.convert_tokens_to_ids
        self.header, self.eot, self.pad = ids("<|start_header_id|>"), ids("<|eot_id|>"), ids("<|pad|>")
        self.assistant = tokenizer.encode("assistant", add_special_tokens=False)[0]

    def document(self):
        if self.rng.random() < self.tool_share:
            messages, tools = conversation(self.rng, self.writer, C.SYSTEM_MESSAGES)
            text = self.tokenizer.apply_chat_template(messages, tools=tools, chat_template=self.template, tokenize=False)
        else:
            text = render_chat(self.writer.chat(self.rng)["messages"])
        ids = self.tokenizer.encode(text, add_special_tokens=False)[:LENGTH + 1]
        weights = [self.user_weight] * len(ids)
        for i, token in enumerate(ids):
            if token == self.header and i + 1 < len(ids) and ids[i + 1] == self.assistant:
                end = ids.index(self.eot, i) if self.eot in ids[i:] else len(ids) - 1
                weights[i:end + 1] = [1.0] * (end + 1 - i)
        return ids, weights

    def batch(self, rows):
        ids, weights, left = [], [], None
        for _ in range(rows):
            row, weight = [], []
            while True:
                doc = left or self.document()
                left = doc if len(row) + len(doc[0]) > LENGTH + 1 else None
                if left:
                    break
                row, weight = row + doc[0], weight + doc[1]
            fill = LENGTH + 1 - len(row)
            ids.append(row + [self.pad] * fill)
            weights.append(weight + [0.0] * fill)
        return torch.tensor(ids), torch.tensor(weights)


CALL = re.compile(r"<tool_call>\n(.*)\n</tool_call>")


def called(text):
    match = CALL.fullmatch(text)
    try:
        return json.loads(match[1]) if match else None
    except ValueError:
        return None


@torch.inference_mode()
def tool_accuracy(model, tokenizer, template, rows):
    """Shares of right calls, and of right answers behind the right call and its result."""
    def prompt(messages, tools):
        text = tokenizer.apply_chat_template(messages, tools=tools, chat_template=template, add_generation_prompt=True, tokenize=False)
        return tokenizer.encode(text, add_special_tokens=False)
    replies = generate(model, tokenizer, [prompt(r["messages"], r["tools"]) for r in rows], max_new=80, batch=16)
    wrong = [(r["messages"][0]["content"], text) for r, (text, _) in zip(rows, replies) if called(text) != r["call"]]
    behind = [prompt([*r["messages"], {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": r["call"]}]},
                      {"role": "tool", "content": r["result"]}], r["tools"]) for r in rows]
    answers = generate(model, tokenizer, behind, max_new=40, batch=16)
    right = sum(text == r["answer"] for r, (text, _) in zip(rows, answers))
    return {"calls": round(1 - len(wrong) / len(rows), 4), "answers": round(right / len(rows), 4)}, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", default=".", help="folder of the demo model")
    parser.add_argument("--out", default="tools", help="the adapter's folder, which has chat_template.jinja")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--rows", type=int, default=8, help="of 512 tokens a step")
    parser.add_argument("--rank", type=int, default=32)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--tool-share", type=float, default=0.6)
    parser.add_argument("--resume", help="folder of an adapter to begin with")
    parser.add_argument("--round-from", type=float, default=0.6, help="share of the steps before weights are rounded in every second one")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    tokenizer = AutoTokenizer.from_pretrained(args.base)
    with open(os.path.join(args.out, "chat_template.jinja"), encoding="utf-8") as f:
        template = f.read()
    model = AutoModelForCausalLM.from_pretrained(args.base, dtype=torch.float32, attn_implementation="sdpa")
    alpha = args.rank
    added, embedding = add_adapter(model, args.rank, alpha)
    if args.resume:
        with safe_open(os.path.join(args.resume, "adapter_model.safetensors"), "pt") as held:
            for name, module in added.items():
                for which in ("lora_A", "lora_B"):
                    getattr(module, which).data = held.get_tensor(f"base_model.model.{name}.{which}.weight").float()
    parameters = [p for p in model.parameters() if p.requires_grad]
    print(f"{sum(p.numel() for p in parameters)} parameters", flush=True)
    optimizer = torch.optim.AdamW(parameters, lr=args.lr, betas=(0.9, 0.95), weight_decay=0.01)
    documents = Documents(tokenizer, template, random.Random(2), args.tool_share, 0.05)
    bos, chance = tokenizer.convert_tokens_to_ids("<|begin_of_text|>"), random.Random(3)
    rows = questions(random.Random(4), 400)
    start, running = time.time(), 0.0
    for step in range(args.steps):
        progress = step / args.steps
        for group in optimizer.param_groups:
            group["lr"] = args.lr * min((step + 1) / 100, 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * progress)))
        rounded = progress > args.round_from and chance.random() < 0.5
        for module in added.values():
            module.is_rounded = rounded
        ids, weights = documents.batch(args.rows)
        logits = model(input_ids=ids[:, :-1], attention_mask=document_mask(ids[:, :-1], bos), use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
        weight = weights[:, 1:].flatten()
        loss = (loss * weight).sum() / weight.sum()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        running += loss.item()
        if (step + 1) % 50 == 0:
            print(f"step {step + 1}/{args.steps} loss {running / 50:.4f} {time.time() - start:.0f}s", flush=True)
            running = 0.0
        if (step + 1) % 300 == 0:
            for module in added.values():
                module.is_rounded = False
            model.eval()
            print(tool_accuracy(model, tokenizer, template, rows[:64]), flush=True)
            model.train()
            save_adapter(added, embedding, args.rank, alpha, "cria demo", args.out)
    save_adapter(added, embedding, args.rank, alpha, "cria demo", args.out)

    with open(os.path.join(args.base, "questions.jsonl"), encoding="utf-8") as f:
        plain = [json.loads(line) for line in f]
    results = {}
    for mode in ("f32", "int4_g64"):
        merged = AutoModelForCausalLM.from_pretrained(args.base, dtype=torch.float32, attn_implementation="eager").eval()
        for name, module in added.items():
            factors = [p.detach().to(torch.bfloat16).float() for p in (module.lora_B, module.lora_A)]
            merged.get_submodule(name).weight.data += module.scale * factors[0] @ factors[1]
        factors = [p.detach().to(torch.bfloat16).float() for p in (embedding.lora_embedding_B, embedding.lora_embedding_A)]
        merged.model.embed_tokens.weight.data += embedding.scale * (factors[0] @ factors[1]).T
        if mode != "f32":
            quantize_(merged, 4, 64, (8, 0))
        shares, wrong = tool_accuracy(merged, tokenizer, template, rows)
        results[mode] = {**shares, "questions_without_tools": accuracy(merged, tokenizer, plain)[0]}
        print(mode, results[mode], wrong[:10], flush=True)
    with open(os.path.join(args.out, "tool_eval.json"), "w", encoding="utf-8") as out:
        json.dump(results, out, indent=1)
        out.write("\n")
    with open(os.path.join(args.out, "tool_questions.jsonl"), "w", encoding="utf-8") as out:
        for row in rows:
            out.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
