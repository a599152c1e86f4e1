# SPDX-License-Identifier: Apache-2.0
"""Fills in what jinja_cases.json expects, by real Jinja2 with the environment that chat templates get in transformers.

python3 jinja_cases.py jinja_cases.json

For each case: `expected` is Jinja2's output; where Jinja2 fails there is `error`, its message. A case that this project refuses on
purpose although Jinja2 renders it carries `refused` (part of our message), which is kept as it is. Needs jinja2 only.
"""
import datetime
import json
import sys

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


class Space(jinja2.utils.Namespace):
    def __init__(*args, **kwargs):
        self, attrs = args[0], dict(*args[1:], **kwargs)
        if any(str(name).startswith("_") for name in attrs):
            raise jinja2.exceptions.SecurityError("underscore")
        jinja2.utils.Namespace.__init__(self, attrs)

    def __setitem__(self, name, value):
        if name.startswith("_"):
            raise jinja2.exceptions.SecurityError("underscore")
        jinja2.utils.Namespace.__setitem__(self, name, value)


def environment(now):
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env.filters["tojson"] = tojson
    env.globals.update(raise_exception=raise_exception, namespace=Space)
    env.globals["strftime_now"] = lambda format: datetime.datetime.fromtimestamp(now, datetime.timezone.utc).replace(tzinfo=None).strftime(format)
    return env


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        table = json.load(f)
    env = environment(table["now"])
    for case in table["cases"]:
        case.pop("expected", None)
        case.pop("error", None)
        try:
            text = env.from_string(case["template"]).render(**table["vars"])
            if " object at 0x" not in text and "refused" not in case:
                case["expected"] = text
        except Exception as e:
            case["error"] = f"{type(e).__name__}: {e}"
    table["provenance"] = f"expected and error by Jinja2 {jinja2.__version__}, Python {sys.version.split()[0]}, through jinja_cases.py"
    with open(sys.argv[1], "w", encoding="utf-8") as f:
        f.write('{\n"provenance": %s,\n"now": %d,\n"vars": %s,\n"cases": [\n' % (json.dumps(table["provenance"]), table["now"], json.dumps(table["vars"], ensure_ascii=False)))
        f.write(",\n".join(json.dumps(c, ensure_ascii=False) for c in table["cases"]) + "\n]\n}\n")


main()
