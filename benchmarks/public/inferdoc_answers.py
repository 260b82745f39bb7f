"""What `inferdoc diagnose` says of one case, as the public benchmark asks for it.

    python benchmarks/public/score.py --tool inferdoc \\
        --run 'python benchmarks/public/inferdoc_answers.py {recording} {from} {until}'
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from inferdoc import diagnose, open_source
from inferdoc.store import Store, import_file


def main(recording: str, begin: str, until: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fleet.db"
        with Store.open(path, "w") as store:
            import_file(store, recording)
        answer = diagnose(open_source(store=path), from_=float(begin), until=float(until))
    findings = [{"cause": one.id, "pods": list(one.scope.pods), "onset": one.onset} for one in answer.findings]
    print(json.dumps(None if answer.verdict == "unknown" else findings))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
