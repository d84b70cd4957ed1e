#!/usr/bin/env python3
"""A conversation on the terminal: python_chat.py MODEL.cria. Ctrl-C stops an answer, Ctrl-D leaves."""
import sys

import cria


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("python_chat.py: give it a model: python_chat.py MODEL.cria")
    messages = []
    with cria.Model(sys.argv[1]) as model:
        while True:
            try:
                question = input("> " if sys.stdin.isatty() else "")
            except EOFError:
                return
            messages.append({"role": "user", "content": question})
            stream = model.chat(messages, stream=True)
            try:
                for piece in stream:
                    print(piece, end="", flush=True)
            except KeyboardInterrupt:
                stream.close()
            print()
            messages.append({"role": "assistant", "content": str(stream.answer)})


if __name__ == "__main__":
    main()
