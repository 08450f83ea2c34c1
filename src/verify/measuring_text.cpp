#include "verify/measuring_text.h"

namespace ft {

std::string_view measuring_text() {
  return R"(class Shelf:
    """Books by title, each with the number of copies."""

    def __init__(self):
        self.copies = {}

    def add(self, title, count=1):
        if count < 1:
            raise ValueError("count must be positive")
        self.copies[title] = self.copies.get(title, 0) + count

    def lend(self, title):
        if self.copies.get(title, 0) == 0:
            raise KeyError(title)
        self.copies[title] -= 1
        return self.copies[title]

    def titles(self):
        return sorted(title for title, count in self.copies.items() if count > 0)


def longest(words):
    best = ""
    for word in words:
        if len(word) > len(best):
            best = word
    return best


def read_pairs(path):
    pairs = {}
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            key, separator, value = line.partition("=")
            if not separator:
                raise ValueError(f"line {number}: expected KEY=VALUE")
            pairs[key.strip()] = value.strip()
    return pairs

The harbour was quiet in the morning. Two boats had come back during the night, and the women on the
quay were sorting the catch into boxes. A boy carried water from the pump. When the sun rose over the
hills, the light fell on the windows of the old custom house, and somebody opened the shutters one
after the other. The keeper of the lighthouse came down the road with his dog. He asked whether the
storm had done any damage, and they told him that one net was lost and that nothing else was.

Settings are read from a file in the home directory. Each line has a name and a value. A value on the
command line takes the place of the one in the file. If neither is given, the default is used. The
program says which file it has read, and it stops with an error if a name is unknown.

User: What is the capital of France?
Assistant: The capital of France is Paris.
User: Name three rivers in Europe.
Assistant: Three rivers in Europe are the Danube, the Rhine and the Loire.
User: Write a Python function that adds two numbers.
Assistant: Here is the function:

def add(a, b):
    return a + b

It takes two numbers and returns their sum.
)";
}

}  // namespace ft
