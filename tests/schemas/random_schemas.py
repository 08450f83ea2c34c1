"""Random schemas of tools, of the kinds that pydantic, zod, TypeBox, MCP servers and OpenAPI generators write.

schema(seed) gives the parameters of a tool. Broken schemas are not made here.
"""
import random
import urllib.parse

WORDS = ['city', 'days', 'path', 'content', 'unit', 'count', 'tags', 'where', 'mode', 'user-id', 'filter[status]',
         'größe', 'x.y', 'a/b', 'q~1']
TEXTS = ['C', 'F', 'celsius', 'open', '00123', 'True', 'null', '7', 'a b', '{"a":1}', 'ü', "it's", 'x\ny', '[1]', '-']
PATTERNS = ['^[0-9]{5}$', '^[a-z]+$', '[A-Z]', '^x-', 'end$', '^(a|b)c$', r'^\d{2}-\d{2}$', '^a|b$', r'^\w{1,4}$',
            '^[^/]+$']
FORMATS = ['date', 'uuid', 'ipv4', 'email', 'date-time', 'time', 'ipv6', 'hostname', 'uri', 'byte', 'int64']


class Maker:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.kind = self.random.choice(['pydantic', 'zod', 'mcp', 'openapi'])
        self.defs = {}
        self.others = random.Random(f'relatives {seed}')  # separate, so that these change no other draw
        self.place = 'definitions' if self.kind == 'openapi' and self.random.random() < 0.4 else '$defs'
        self.names = []

    def chance(self, share):
        return self.random.random() < share

    def pick(self, values):
        return self.random.choice(values)

    def escaped(self, name):
        """A name as a part of a pointer in a URI."""
        return urllib.parse.quote(name.replace('~', '~0').replace('/', '~1'), safe='~')

    def reference(self, make):
        name = self.pick(['Unit', 'Place', 'Inner', 'a/b', 'Le Mode', 'T~x', 'Größe', '50%']) + str(len(self.defs))
        self.defs[name] = True
        self.defs[name] = make()
        return {'$ref': f'#/{self.place}/{self.escaped(name)}'}

    # -- scalars
    def string(self):
        s = {'type': 'string'}
        kind = self.random.random()
        if self.chance(0.04):
            s.update(pattern=self.pick(PATTERNS), minLength=1, maxLength=8)
        elif kind < 0.25:
            s['enum'] = self.random.sample(TEXTS, self.random.randint(1, 3))
        elif kind < 0.35:
            s['const'] = self.pick(TEXTS)
        elif kind < 0.5:
            s['pattern'] = self.pick(PATTERNS)
        elif kind < 0.6:
            s['format'] = self.pick(FORMATS)
        elif kind < 0.75:
            low = self.random.randint(0, 3)
            s['minLength'] = low
            if self.chance(0.7):
                s['maxLength'] = low + self.random.randint(0, 4)
        return s

    def number(self):
        s = {'type': self.pick(['integer', 'integer', 'number'])}
        kind = self.random.random()
        if kind < 0.2 and self.kind == 'zod':
            big = 1.7976931348623157e308 if s['type'] == 'number' else 9007199254740991
            s.update(minimum=-big, maximum=big)
        elif kind < 0.5:
            low = self.random.randint(-20, 20)
            s['minimum'] = low
            if self.chance(0.7):
                s['maximum'] = low + self.random.randint(0, 30)
        elif kind < 0.6:
            low = self.random.randint(-5, 5)
            s.update(exclusiveMinimum=low, exclusiveMaximum=low + self.random.randint(2, 9))
        elif kind < 0.7:
            s['multipleOf'] = self.pick([2, 5, 10, 3])
        elif kind < 0.75:
            s['const'] = self.random.randint(-3, 300)
        return s

    def literal(self):
        values = [1, 2, 3, 2.5, True, False, None, 'a', '1', 'null', '00', {'k': [1, 'x']}, [1, None]]
        if self.chance(0.3):
            return {'const': self.pick(values)}
        return {'enum': self.random.sample(values, self.random.randint(1, 4))}

    def scalar(self):
        kind = self.random.random()
        if kind < 0.4:
            return self.string()
        if kind < 0.7:
            return self.number()
        if kind < 0.8:
            return {'type': 'boolean'}
        if kind < 0.92:
            return self.literal()
        if kind < 0.94:
            return {'not': self.literal()}
        if kind < 0.95:
            return {'type': 'string', 'not': {'enum': [self.pick(TEXTS), 'other']}}
        return {'type': self.random.sample(['string', 'integer', 'number', 'boolean', 'null'], 2)}

    # -- containers
    def array(self, depth):
        s = {'type': 'array'}
        if self.chance(0.25):
            s['prefixItems'] = [self.value(depth + 1) for _ in range(self.random.randint(1, 3))]
            s['items'] = self.pick([False, False, {'type': 'boolean'}])
            if self.chance(0.7):
                s['minItems'] = len(s['prefixItems'])
            if self.kind in ('openapi', 'zod') and self.chance(0.3):  # as drafts before 2020-12 write tuples
                s['additionalItems'] = s.pop('items')
                s['items'] = s.pop('prefixItems')
        else:
            s['items'] = self.value(depth + 1)
            if self.chance(0.5):
                s['minItems'] = self.random.randint(0, 2)
            if self.chance(0.5):
                s['maxItems'] = s.get('minItems', 0) + self.random.randint(0, 3)
        if self.chance(0.1):
            s['uniqueItems'] = True
        if self.chance(0.05):
            s['contains'] = self.scalar()
            if self.chance(0.5):
                s['minContains'] = self.random.randint(0, 2)
        return s

    def map(self, depth):
        s = {'type': 'object', 'additionalProperties': self.value(depth + 1)}
        kind = self.random.random()
        if kind < 0.2:
            s.update(minProperties=self.random.randint(1, 3))
        elif kind < 0.4:
            s.update(minProperties=2, maxProperties=2)
        elif kind < 0.5:
            s['propertyNames'] = {'type': 'string', 'enum': ['a', 'b', 'c']}
        elif kind < 0.6:
            s['propertyNames'] = {'pattern': '^[a-z]{1,3}$'}
        elif kind < 0.7:
            patterns = {'^x-': self.value(depth + 1), '[0-9]$': self.value(depth + 1)}
            s = {'type': 'object', 'patternProperties': patterns,
                 'additionalProperties': self.pick([False, {'type': 'integer'}])}
        if 'propertyNames' not in s and self.others.random() < 0.2:
            s['propertyNames'] = self.name_rule()
        return s

    def object(self, depth):
        names = self.random.sample(WORDS, self.random.randint(0 if depth else 1, 3))
        s = {'type': 'object', 'properties': {n: self.value(depth + 1) for n in names}}
        if self.chance(0.8):
            s['required'] = [n for n in names if self.chance(0.6)]
        closed = {'pydantic': 0.3, 'zod': 0.9, 'mcp': 0.3, 'openapi': 0.2}[self.kind]
        if self.chance(closed):
            s['additionalProperties'] = False
        elif self.chance(0.1):
            s['additionalProperties'] = self.pick([True, {}, {'type': 'integer'}])
        if self.chance(0.07):
            s['minProperties'] = min(len(names), self.random.randint(0, 2))
        if self.chance(0.12) and names:
            self.depend(s, names, depth)
        return s

    def depend(self, s, names, depth):
        """Keywords by which one property depends on others."""
        first, last = names[0], names[-1]
        kind = self.random.randrange(8)
        if kind == 0:
            s['dependentRequired'] = {first: [last]}
        elif kind == 1:
            s['dependentSchemas'] = {first: {'required': [last]}}
        elif kind == 2:
            s['not'] = {'required': [first, last]}
        elif kind == 3:
            s['if'] = {'properties': {first: self.scalar()}}
            s['then'] = {'required': [last]}
            if self.chance(0.5):
                s['else'] = {'properties': {last: self.scalar()}}
        elif kind == 4:
            s['patternProperties'] = {self.pick(['^x-', '[0-9]$', '^meta']): self.value(depth + 1)}
        elif kind == 5:
            s['propertyNames'] = self.pick([{'pattern': '^[^_]'}, {'maxLength': 20}, {'enum': [*names, 'other']}])
        elif kind == 6:
            s[self.others.choice(['anyOf', 'oneOf'])] = [{'required': [first]}, {'required': [last]}]
        else:
            s['unevaluatedProperties'] = False

    def tagged(self, depth):
        """A union of objects that one property distinguishes."""
        members = []
        for word in ['circle', 'square']:
            one = self.object(depth + 1)
            one['properties'] = {'kind': {'const': word, 'type': 'string'}, **one['properties']}
            one['required'] = ['kind', *one.get('required', [])]
            members.append(self.reference(lambda one=one: one) if self.chance(0.5) else one)
        union = {self.pick(['oneOf', 'anyOf']): members}
        if self.chance(0.5):
            named = {one['$ref'].rsplit('/', 1)[1]: one['$ref'] for one in members if '$ref' in one}
            union['discriminator'] = {'propertyName': 'kind', 'mapping': named}
        return union

    def value(self, depth=0):
        kind = self.random.random()
        if depth > 2 or kind < 0.4:
            return self.scalar()
        if kind < 0.5:
            return self.array(depth)
        if kind < 0.57:
            return self.map(depth)
        if kind < 0.67:
            return self.object(depth)
        if kind < 0.75:
            return self.reference(lambda: self.value(depth + 1))
        if kind < 0.8:
            make = self.pick([self.object, lambda d: self.string()])
            return {'allOf': [self.reference(lambda: make(depth + 1))], 'description': 'merged'}
        if kind < 0.83:
            if self.kind != 'openapi':
                return self.object(depth)
            return {'allOf': [self.object(depth + 1), self.object(depth + 1)]}
        if kind < 0.9:
            return {'anyOf': [self.value(depth + 1), {'type': 'null'}], 'default': None}
        if kind < 0.93:
            return {self.pick(['anyOf', 'anyOf', 'oneOf']): [self.value(depth + 1) for _ in range(2)]}
        if kind < 0.96:
            return self.tagged(depth)
        if self.kind == 'openapi' and self.chance(0.5):
            return {**self.string(), 'nullable': True}
        if kind < 0.98 and self.names:
            return {'$ref': f'#/properties/{self.escaped(self.pick(self.names))}'}
        if kind < 0.99:
            return {'$ref': '#'}
        return self.pick([{}, True, {'description': 'anything'}])

    def relative(self):
        """A property as one library writes it."""
        pick = self.others.choice
        scalar = pick([{'type': 'boolean'}, {'type': 'integer', 'minimum': 0, 'maximum': 9}, {'enum': ['a', '1']}])
        leaf = {'anyOf': [scalar, {'type': 'null'}]}
        union = {'anyOf': [{'type': 'string', 'const': one} for one in ('a', '2', 'null')]}
        number = {'type': 'integer', 'minimum': -9007199254740991, 'maximum': 9007199254740991}
        tree = {'$id': 'T0', 'type': 'object', 'required': ['v'], 'additionalProperties': False,
                'properties': {'v': scalar, 'kids': {'type': 'array', 'items': {'$ref': 'T0'}, 'maxItems': 1}}}
        record = {'type': 'object', 'propertyNames': self.name_rule(), 'additionalProperties': scalar}
        named = {'type': 'object', 'required': ['a'], 'additionalProperties': False, 'properties': {
            'a': {'$anchor': 'leaf', **leaf}, 'b': {'$ref': '#leaf'}}}
        base = {'type': 'object', 'required': ['kind'], 'properties': {'kind': {'type': 'string', 'const': 'dog'}}}
        child = {'allOf': [base, {'type': 'object', 'properties': {'age': scalar}}], 'example': {'kind': 'dog'}}
        split = {'type': 'array', 'prefixItems': [scalar, leaf], 'minItems': 2, 'maxItems': 2}
        marked = {'type': 'string', 'enum': ['x', 'y'], 'default': 'x', 'deprecated': True, 'readOnly': True}
        return pick([tree, union, number, record, named, child, split, marked,
                     {'anyOf': [number, union], 'description': 'either'}, {'oneOf': [union, {'type': 'null'}]}])

    def name_rule(self):
        """What the names of a map must be."""
        few = {'enum': self.others.sample(['a', 'b-c', 'x.y', 'ü'], 2)}
        short = {self.others.choice(['minLength', 'maxLength']): self.others.randint(1, 6)}
        rule = self.others.choice([
            {'type': 'string'}, few, short, {'const': 'only'}, {'format': self.others.choice(['uuid', 'date'])},
            {'type': 'string', 'pattern': '^[a-z]', 'maxLength': 5}, {'anyOf': [few, {'pattern': '^x-'}]},
            {'allOf': [short, {'pattern': '[0-9]$'}]}, {'oneOf': [{'const': 'a'}, {'const': 'b'}]}])
        if self.others.random() < 0.3:
            self.defs['Name'] = rule
            return {'$ref': f'#/{self.place}/Name'}
        return rule

    def alternatives(self):
        """Parameters that are one of two objects whose properties have equal names and different types."""
        name = self.others.choice(WORDS)
        one = {'type': 'object', 'required': [name, 'kind'], 'additionalProperties': False,
               'properties': {name: {'type': 'integer'}, 'kind': {'const': 'number'}}}
        two = {'type': 'object', 'required': [name, 'kind'], 'additionalProperties': False,
               'properties': {name: {'enum': ['1', 'a', '-7']}, 'kind': {'const': 'text'}}}
        return {self.others.choice(['anyOf', 'oneOf']): [one, two]}

    def parameters(self):
        s = {'type': 'object', 'properties': {}}
        for name in self.random.sample(WORDS, self.random.randint(1, 4)):
            s['properties'][name] = self.value()
            self.names.append(name)
        if self.others.random() < 0.25:
            s['properties'][self.names[-1]] = self.relative()
        s['required'] = [n for n in self.names if self.chance(0.7)]
        if self.chance(0.6):
            s['additionalProperties'] = False
        kind = self.random.random()
        self.names = []  # from here on everything is nested deeper
        if '#/properties' in str(s) + str(self.defs):
            pass  # its references lead nowhere once the properties are further inside
        elif kind < 0.06:
            s = {'$ref': self.reference(lambda: s)['$ref']}
        elif kind < 0.1:
            s = {'anyOf': [s, self.object(0)]}
        elif kind < 0.13:
            s = {'type': 'object', 'allOf': [s, self.object(0)]} if self.kind == 'openapi' else s
        elif kind < 0.16:
            s = self.map(0)
        if self.others.random() < 0.03 and '$ref' not in s:
            return self.alternatives()
        if self.kind == 'zod' and self.chance(0.3):
            s['$schema'] = 'https://json-schema.org/draft/2020-12/schema'
        if self.defs:
            s[self.place] = self.defs
        return s


def schema(seed):
    return Maker(seed).parameters()
