"""Every finished call follows the schema of its tool: random schemas x chat formats x strict, lenient and on sight
(tool_choice auto), of the first two required and with text in turns, validated by PyPI's jsonschema. A schema that
cannot be enforced is refused first. A call on sight that is cut anywhere is the beginning of the whole one.

usage: call_schemas_test.py BUILT_draw_calls [FIRST_SEED]
FORETOKEN_SCHEMAS: how many schemas (default 12; `tools/check --full` takes 2,000). Run by tools/sdk_test.
"""
import json
import os
import subprocess
import sys

import jsonschema

from random_schemas import schema

FORMATS = ['qwen3_5', 'gemma4', 'hermes', 'harmony', 'glm4_moe', 'llama3_json', 'granite', 'mistral',
           'mistral with a list of calls']
NAMES = ['f', 'files/read', 'get.weather', 'größe ändern']
DRAWS = 3
# Of schemas without strict: nothing fits, or a name or value has the model's own markup.
MAY_BE_REFUSED = ['allows no value', 'cannot be written', 'no tool can be written']
UNENFORCED = ['uniqueItems', 'not', 'if', 'then', 'else', 'contains', 'minContains', 'dependentRequired',
              'dependentSchemas', 'unevaluatedProperties']
# A strict schema is refused for a keyword that it names, or for the reason that no value fits.
SAYS_WHY = [*UNENFORCED, *MAY_BE_REFUSED, 'pattern', 'oneOf', 'Properties', 'propertyNames', 'allOf', 'multipleOf',
            'format', 'items', 'Items', '$ref']


def rewritten(node, lenient):
    """`nullable` as OpenAPI means it; without strict, also without the keywords that the grammar cannot keep."""
    if isinstance(node, list):
        return [rewritten(one, lenient) for one in node]
    if not isinstance(node, dict):
        return node
    if isinstance(node.get('items'), list):  # as drafts before 2020-12 write tuples
        node = {**node, 'prefixItems': node['items'], 'items': node.get('additionalItems', True)}
    out = {}
    for key, value in node.items():
        if key in ('enum', 'const', 'default'):
            out[key] = value
        elif key in ('properties', 'patternProperties', '$defs', 'definitions'):
            out[key] = {name: rewritten(one, lenient) for name, one in value.items()}
        elif lenient and key in UNENFORCED:
            continue
        else:
            out['anyOf' if lenient and key == 'oneOf' else key] = rewritten(value, lenient)
    if out.pop('nullable', False) and len(out) > 0:
        return {'anyOf': [out, {'type': 'null'}]}
    return out


def problem_of(judge, call, name):
    """The fault of a call; None if it is valid."""
    if call['name'] != name:
        return f'it is named {call["name"]!r}'
    try:
        found = next(judge.iter_errors(json.loads(call['arguments'])), None)
    except ValueError as e:
        return f'not JSON: {e}'
    return found and found.message[:200]


class Run:
    def __init__(self, program):
        self.program = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        encoding='utf8')
        self.checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
        self.calls = self.unfinished = self.refused = self.wrong = 0

    def draw(self, asked):
        self.program.stdin.write(json.dumps(asked) + '\n')
        self.program.stdin.flush()
        line = self.program.stdout.readline()
        if not line:
            sys.exit(f'draw_calls ended at {json.dumps(asked)}')
        return json.loads(line)

    def blame(self, asked, what, text=''):
        self.wrong += 1
        function = asked['tools'][0]['function']
        print(f'seed {asked["seed"]}, {asked["format"]}, strict {"strict" in function}, '
              f'on sight {asked["on_sight"]}: {what}')
        print(f'  {text[:300]!r}\n  {json.dumps(function["parameters"])}')
        if self.wrong > 20:
            sys.exit('more than 20 are wrong')

    def try_schema(self, seed, format_name, strict, on_sight):
        function = {'name': NAMES[seed % len(NAMES)], 'parameters': schema(seed)}
        if strict:
            function['strict'] = True
        asked = {'format': format_name, 'tools': [{'type': 'function', 'function': function}], 'seed': seed,
                 'required': not on_sight and (seed + strict) % 2 == 0, 'draws': DRAWS, 'on_sight': on_sight}
        answer = self.draw(asked)
        if 'refused' in answer:
            self.refused += 1
            if not strict and not any(word in answer['refused'] for word in MAY_BE_REFUSED):
                self.blame(asked, 'refused: ' + answer['refused'])
            if not any(word in answer['refused'] for word in SAYS_WHY):
                self.blame(asked, 'refused without a keyword: ' + answer['refused'])
            return
        self.unfinished += answer['unfinished']
        judge = jsonschema.Draft202012Validator(rewritten(function['parameters'], not strict),
                                                format_checker=self.checker)
        for call in answer['calls']:
            self.calls += 1
            problem = problem_of(judge, call, function['name'])
            if problem:
                self.blame(asked, problem, call['text'])
            if not call.get('ended', True):
                self.blame(asked, 'an ended answer has a call without an end', call['text'])
        if 'cut' in answer:
            self.blame(asked, answer['cut'])
        if asked['required'] and answer['content']:
            self.blame(asked, 'content beside a required call', answer['content'][0])


def main():
    run = Run(sys.argv[1])
    count = int(os.environ.get('FORETOKEN_SCHEMAS', '12'))
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    for seed in range(first, first + count):
        for format_name in FORMATS:
            for strict, on_sight in ((False, False), (True, False), (False, True)):
                run.try_schema(seed, format_name, strict, on_sight)
        if (seed - first) % 100 == 99:
            print(f'{seed - first + 1} schemas: {run.calls} finished calls, {run.wrong} wrong', flush=True)
    print(f'{count} schemas: {run.calls} finished calls, {run.unfinished} unfinished, {run.refused} refused, '
          f'{run.wrong} wrong')
    if run.calls < count * len(FORMATS):
        sys.exit('too few calls were finished to say anything')
    sys.exit(1 if run.wrong else 0)


main()
