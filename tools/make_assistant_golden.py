#!/usr/bin/env python3
"""Makes drafts.json of tests/golden/assistant: the drafts of the published code for two random pairs of a Gemma 4 and
its assistant.

    python3 tools/make_assistant_golden.py           # with torch and transformers 5.24, on a CPU in float32
    python3 tools/make_assistant_golden.py --check   # compares with the recorded ones instead

The weights in the folders and the prompts in the files are random and stay as they are. A case is a number of
committed rows, a pending token and 15 drafts by three rules (see ABOUT). The margin of a draft is the lead of its
logit over the next one.
"""

import argparse
import copy
import json
import pathlib
import sys

import torch
from transformers import GenerationConfig
from transformers.generation.candidate_generator import SinglePositionMultiTokenCandidateGenerator
from transformers.models.gemma4.modeling_gemma4 import Gemma4ForCausalLM
from transformers.models.gemma4_assistant.modeling_gemma4_assistant import Gemma4AssistantForCausalLM

PAIRS = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "assistant"
DEPTH = 15
NEAR = 2e-4  # differences of the recorded numbers that another build of torch may make
ABOUT = ("Float32 on the CPU, weights upcast from the saved bf16. text: the committed rows 0..committed-1; pending: "
         "the token at position committed. drafts: the contract (keys and values of committed rows only, rope position "
         "= committed, sliding layers see the last {past} committed rows). transformers_drafts: "
         "SinglePositionMultiTokenCandidateGenerator of transformers on the same rows, given only committed rows; its "
         "sliding mask sees {published}. drafts_with_rope_of_last_row: the contract with rope position committed - 1. "
         "hidden_in: first 4 values of the target row that goes into the first draft (after the final norm).")


class Pair:
    def __init__(self, folder):
        self.target = Gemma4ForCausalLM.from_pretrained(folder / "target", dtype=torch.float32).eval()
        self.assistant = Gemma4AssistantForCausalLM.from_pretrained(folder / "assistant", dtype=torch.float32).eval()
        self.window = self.target.config.get_text_config().sliding_window

    def rows(self, text):
        return self.target(input_ids=torch.tensor([text]), output_hidden_states=True, return_shared_kv_states=True,
                           use_cache=True)

    def continued(self, prompt, length):
        """The prompt and the tokens that the target chooses."""
        text = list(prompt)
        while len(text) < length:
            text.append(int(self.rows(text).logits[0, -1].argmax()))
        return text

    def contract(self, rows, pending, position):
        """Drafts, their logits and margins. Sliding layers see the past that a row at `committed` would see."""
        past = {"full_attention": 0, "sliding_attention": self.window - 1}
        seen = {kind: tuple(one[:, :, -past[kind]:] for one in states)
                for kind, states in rows.shared_kv_states.items()}
        token, hidden, found = pending, rows.hidden_states[-1][:, -1:], []
        for _ in range(DEPTH):
            embedding = self.target.get_input_embeddings()(torch.tensor([[token]]))
            out = self.assistant(inputs_embeds=torch.cat([embedding, hidden], dim=-1), attention_mask=None,
                                 position_ids=torch.tensor([[position]]), shared_kv_states=seen, use_cache=False)
            best = torch.topk(out.logits[0, -1], 2)
            token, hidden = int(best.indices[0]), out.last_hidden_state
            found.append((token, float(best.values[0]), float(best.values[0] - best.values[1])))
        return found

    def published(self, rows, text, pending):
        self.assistant.generation_config.num_assistant_tokens = DEPTH
        generator = SinglePositionMultiTokenCandidateGenerator(
            self.assistant, self.target.get_input_embeddings(), GenerationConfig(max_length=10000))
        outputs = copy.copy(rows)
        tokens, _ = generator.get_candidates(torch.tensor([text + [pending]]), {}, outputs, False, 0)
        return tokens[0, len(text) + 1:].tolist()

    def case(self, prompt, committed):
        text = self.continued(prompt, committed)
        rows = self.rows(text)
        pending = int(rows.logits[0, -1].argmax())
        drafts = self.contract(rows, pending, committed)
        return {"prompt": prompt, "committed": committed, "text": text, "pending": pending,
                "drafts": [draft for draft, _, _ in drafts],
                "logit": [round(logit, 5) for _, logit, _ in drafts],
                "margin": [round(margin, 5) for _, _, margin in drafts],
                "hidden_in": [round(float(value), 5) for value in rows.hidden_states[-1][0, -1, :4]],
                "transformers_drafts": self.published(rows, text, pending),
                "drafts_with_rope_of_last_row": [draft for draft, _, _ in
                                                 self.contract(rows, pending, committed - 1)]}


def same(a, b):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return abs(a - b) <= NEAR if isinstance(a, float) else a == b


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the recorded files and write nothing")
    check = parser.parse_args().check
    torch.set_grad_enabled(False)
    differ = 0
    for folder in sorted(PAIRS.iterdir()):
        pair = Pair(folder)
        file = folder / "drafts.json"
        recorded = json.loads(file.read_text())
        golden = {"about": ABOUT.format(past=pair.window - 1, published=pair.window + 1), "window": pair.window,
                  "depth": DEPTH, "cases": [pair.case(one["prompt"], one["committed"]) for one in recorded["cases"]]}
        if check:
            wrong = [one["committed"] for one, other in zip(golden["cases"], recorded["cases"]) if not same(one, other)]
            wrong += ["the fields"] if not same(golden, recorded) and not wrong else []
            differ += len(wrong)
            print(f"{folder.name}: {len(golden['cases'])} cases, different: {wrong or 'none'}")
        else:
            file.write_text(json.dumps(golden, separators=(",", ":")))
            print(f"{folder.name}: {len(golden['cases'])} cases")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
