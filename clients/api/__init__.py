"""The diagnosis service for apps: `DermFed` sends a picture and gives back a `Diagnosis`.

```python
from clients.api import DermFed

with DermFed("https://dermfed.hospital.example", api_key) as service:
    diagnosis = service.diagnose("lesion.jpg", skin_tone="V")
```

`AsyncDermFed` is the same for apps that wait with `await`.

Nothing of ours is imported here, and no torch, numpy or Pillow: httpx (with its anyio), pydantic and the
standard library. Only `client` does anything. `requests` says what is sent, to whom
and when it is sent again, `answers` what came back: functions that both share.
"""

from clients.api.client import AsyncDermFed, DermFed
from clients.api.diagnosis import (
    Conclusion,
    Diagnosis,
    FalseAlarms,
    Finding,
    Inputs,
    KindMissed,
    Malignancy,
    Missed,
    MissingInput,
    ModelUsed,
    PredictionSet,
    PredictiveValues,
    Quality,
    Reason,
    TriageEvidence,
)
from clients.api.errors import (
    BadRequest,
    ConnectionFailed,
    DermFedError,
    Forbidden,
    InvalidInput,
    InvalidParameter,
    NotAPicture,
    NotFound,
    ProblemError,
    ServerError,
    TimedOut,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    UnexpectedAnswer,
    UnreadablePicture,
    UnsupportedType,
)

__all__ = [
    "AsyncDermFed",
    "BadRequest",
    "Conclusion",
    "ConnectionFailed",
    "DermFed",
    "DermFedError",
    "Diagnosis",
    "FalseAlarms",
    "Finding",
    "Forbidden",
    "Inputs",
    "InvalidInput",
    "InvalidParameter",
    "KindMissed",
    "Malignancy",
    "Missed",
    "MissingInput",
    "ModelUsed",
    "NotAPicture",
    "NotFound",
    "PredictionSet",
    "PredictiveValues",
    "ProblemError",
    "Quality",
    "Reason",
    "ServerError",
    "TimedOut",
    "TooLarge",
    "TooManyRequests",
    "TriageEvidence",
    "Unauthorized",
    "Unavailable",
    "UnexpectedAnswer",
    "UnreadablePicture",
    "UnsupportedType",
]
