#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A chat: lines from standard input, answers as they are made.

    python3 examples/python/chat.py [MODEL_FOLDER]
"""

import sys

import nemotron


def main():
    messages = []
    with nemotron.Model(sys.argv[1] if len(sys.argv) > 1 else "models/tiny") as model, nemotron.Engine(model) as engine:
        for line in sys.stdin:
            messages.append({"role": "user", "content": line.rstrip("\n")})
            answer = ""
            for piece in engine.chat(messages):
                print(piece, end="", flush=True)
                answer += piece
            print()
            messages.append({"role": "assistant", "content": answer})


if __name__ == "__main__":
    try:
        main()
    except nemotron.Error as error:
        sys.exit("chat.py: %s (%s)" % (error, error.name))
    except KeyboardInterrupt:
        sys.exit(130)
