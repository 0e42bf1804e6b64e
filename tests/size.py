"""The size of the tree, held to limits: `make size` ends with 1 where one of them is exceeded.

The limits are what was reached. Lower them when the tree got smaller; a change that needs a higher one says
why in its commit.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PACKAGES = ("registry", "training", "personalization", "serving", "clients")
DIALECT = re.compile(
    r"\b(told|whoever|nobody|somebody|everybody|anew|beside|of before|stands for|has to be)\b", re.IGNORECASE
)
BLANK = (
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE),
    *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
)
LIMITS = {
    "lines of code": 58_187,
    "modules": 400,
    "folders": 45,
    "imports, in thousandths of code": 107,
    "words of the dialect in docstrings": 15,
    "lines of tests": 84_854,
    "lines of benchmarks": 5_912,
    "recipes": 45,
    "decision records": 18,
    "words of docs": 62_995,
    "words of the dialect in docs": 5,
}


@dataclass
class Module:
    """Which lines of a module are code, and which of those import."""

    path: Path
    code: set[int] = field(default_factory=set)
    imports: set[int] = field(default_factory=set)
    dialect: int = 0

    def __post_init__(self) -> None:
        source = self.path.read_text(encoding="utf-8")
        documented: set[int] = set()
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import | ast.ImportFrom):
                self.imports.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
            elif isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (
                text := ast.get_docstring(node)
            ):
                first = node.body[0]
                documented.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
                self.dialect += len(DIALECT.findall(text))
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type not in BLANK:
                self.code.update(range(token.start[0], token.end[0] + 1))
        self.code -= documented


def listed(*where: str) -> Iterator[Path]:
    """The files that are in the repository, or are to be."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *where]
    for name in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        if (path := Path(name)).is_file():
            yield path


def lines(*where: str) -> int:
    """Lines of the Python files in some folders."""
    return sum(
        path.read_text(encoding="utf-8").count("\n") for path in listed(*where) if path.suffix == ".py"
    )


def measured() -> dict[str, int]:
    """How large the tree is in each respect that has a limit."""
    modules = [Module(path) for path in listed(*PACKAGES) if path.suffix == ".py"]
    code = sum(len(module.code) for module in modules)
    pages = [
        path.read_text(encoding="utf-8")
        for path in listed("docs", "README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
        if path.suffix == ".md"
    ]
    return {
        "lines of code": code,
        "modules": len(modules),
        "folders": len({module.path.parent for module in modules}),
        "imports, in thousandths of code": round(
            1000 * sum(len(module.imports) for module in modules) / code
        ),
        "words of the dialect in docstrings": sum(module.dialect for module in modules),
        "lines of tests": lines("tests"),
        "lines of benchmarks": lines("benchmarks"),
        "recipes": sum(path.suffix == ".yaml" for path in listed("training/recipes")),
        "decision records": sum(path.name[0].isdigit() for path in listed("docs/decisions")),
        "words of docs": sum(len(page.split()) for page in pages),
        "words of the dialect in docs": sum(len(DIALECT.findall(page)) for page in pages),
    }


def main() -> int:
    """Print each size with its limit; returns how many are exceeded."""
    exceeded = 0
    for name, size in measured().items():
        over = size > LIMITS[name]
        exceeded += over
        print(f"{name:40} {size:>8,}  at most {LIMITS[name]:>8,}{'  exceeded' if over else ''}")
    return exceeded


if __name__ == "__main__":
    sys.exit(min(main(), 1))
