"""The files that a rule checks: those of the repository, or those of a test, {path: text}."""

import fnmatch
import subprocess


class Tree:
    def __init__(self, files):
        self._files = files

    @classmethod
    def of_repository(cls, root):
        listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others",
                                 "--exclude-standard"],
                                cwd=root, check=True, capture_output=True, text=True).stdout
        files = {}
        for path in filter(None, listed.split("\0")):
            file = root / path
            if file.is_file() and not file.is_symlink():
                files[path] = file.read_bytes()
        return cls({path: data.decode("utf-8", "replace") for path, data in files.items()
                    if b"\0" not in data})

    def paths(self, *patterns):
        """Paths that match one of the patterns (where * also matches /); all without patterns."""
        return [path for path in sorted(self._files)
                if not patterns or any(fnmatch.fnmatch(path, pattern) for pattern in patterns)]

    def has(self, path):
        return path in self._files

    def text(self, path):
        return self._files[path]

    def lines(self, path):
        """(number, line) of a file, from 1."""
        return list(enumerate(self._files[path].splitlines(), 1))
