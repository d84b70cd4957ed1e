"""Texts of the exceptions that Python sources raise."""
import ast
import re


def text_of(node):
    """The text of an expression with {} for what is put in; None where no word of it is written here."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(value.value if isinstance(value, ast.Constant) else "{}" for value in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = text_of(node.left), text_of(node.right)
        return None if left is None and right is None else (left or "{}") + (right or "{}")
    if isinstance(node, ast.IfExp):
        left, right = text_of(node.body), text_of(node.orelse)
        return None if left is None and right is None else f"{left or '{}'} | {right or '{}'}"
    return None


def name_of(node):
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def is_error(name, classes):
    return name in classes or re.search(r"(?:Error|Exception|Warning|Exit)$", name) is not None


def messages_of_python(texts):
    """[(file, line, text)] of {file: its text}."""
    trees = {name: ast.parse(text) for name, text in texts.items()}
    classes = {node.name for tree in trees.values() for node in ast.walk(tree)
               if isinstance(node, ast.ClassDef) and any(is_error(name_of(base), set()) for base in node.bases)}
    found = set()
    for file, tree in trees.items():
        makers = _makers(tree, classes)
        for scope in [node for node in ast.walk(tree) if isinstance(node, (ast.Module, ast.FunctionDef))]:
            names = set()
            for call in _calls(scope):
                name = name_of(call.func)
                if is_error(name, classes) or name in makers or _initializes(call, tree, classes) or name == "warn":
                    for argument in call.args:
                        found |= _texts(file, argument)
                        names |= {node.id for node in ast.walk(argument) if isinstance(node, ast.Name)}
            for node in ast.walk(scope):
                if isinstance(node, (ast.Assign, ast.AugAssign)):
                    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                    if names & {name_of(target) for target in targets}:
                        found |= _texts(file, node.value)
    return sorted(row for row in found if " " in row[2])


def _calls(scope):
    return [node for node in ast.walk(scope) if isinstance(node, ast.Call)]


def _makers(tree, classes):
    """Functions that raise or return an error made of their parameters."""
    makers = set()
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
        parameters = {argument.arg for argument in function.args.args} - {"self"}
        for call in _calls(function):
            used = {node.id for argument in call.args for node in ast.walk(argument) if isinstance(node, ast.Name)}
            if is_error(name_of(call.func), classes) and used & parameters:
                makers.add(function.name)
    return makers - {"__init__"}


def _initializes(call, tree, classes):
    """super().__init__(...) of an error's class."""
    if not (isinstance(call.func, ast.Attribute) and call.func.attr == "__init__"):
        return False
    return any(call in list(ast.walk(node)) for node in ast.walk(tree)
               if isinstance(node, ast.ClassDef) and node.name in classes)


def _texts(file, node):
    text = text_of(node)
    if text is not None:
        return {(file, node.lineno, text)}
    if isinstance(node, (ast.Call, ast.Tuple, ast.List, ast.Dict)):
        parts = node.args if isinstance(node, ast.Call) else getattr(node, "elts", None) or getattr(node, "values", [])
        return set().union(*(_texts(file, part) for part in parts)) if parts else set()
    return set()
