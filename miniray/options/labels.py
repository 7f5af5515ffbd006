"""The syntax of labels, for the options `label_selector` and `fallback_strategy`."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Labels follow the syntax of Kubernetes: a name of at most 63 characters. A key may have a DNS prefix and a slash
# before its name.
_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9_.-]{0,61}[a-zA-Z0-9])?"
_LABEL_PREFIX = rf"(?:{_LABEL})?(?:\.(?:{_LABEL})?)*"
_LABEL_CONDITION = rf"!?{_LABEL}|!?(?:in)?\({_LABEL}(?:, ?{_LABEL})*\)"


def _matches(pattern: str, text: str) -> bool:
    import re  # most programs have no labels

    return re.fullmatch(pattern, text) is not None


def _check_label_key(key: str) -> str | None:
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > 253 or not _matches(_LABEL_PREFIX, prefix)):
        return f"Invalid label key prefix `{prefix}`: it must be DNS names joined by dots, at most 253 characters"
    if not _matches(_LABEL, name):
        return (
            f"Invalid label key name `{name}`: it must be at most 63 letters, digits, '-', '_' and '.', and must begin "
            "and end with a letter or a digit"
        )
    return None


def check_label_selector(selector: dict[str, Any] | None) -> str | None:
    """Return what is wrong with a label selector, or None. Raises TypeError for a key or condition of a wrong type."""
    for key, condition in (selector or {}).items():
        if not isinstance(key, str) or not isinstance(condition, (str, type(None))):
            raise TypeError(f"'label_selector' must be a dict of strings; {key!r}: {condition!r} is not allowed")
        problem = _check_label_key(key)
        if problem is None and condition not in (None, "") and not _matches(_LABEL_CONDITION, condition):
            problem = f"Invalid label selector value `{condition}`: write 'value', '!value', 'in(a,b)' or '!in(a,b)'"
        if problem is not None:
            return problem
    return None


def check_fallback_strategy(strategies: list[Any] | None) -> str | None:
    """Return what is wrong with a list of {"label_selector": {...}}, or None.

    Raises what `check_label_selector` raises.
    """
    for strategy in strategies or ():
        if not isinstance(strategy, dict):
            return f"Each element in fallback_strategy must be a dictionary, not {strategy!r}"
        if not strategy:
            return "Empty dictionary found in `fallback_strategy`"
        unknown = [name for name in strategy if name != "label_selector"]
        if unknown:
            return f"Unsupported option found: {unknown[0]!r}. Only 'label_selector' may be in `fallback_strategy`"
        selector = strategy["label_selector"]
        if selector and not isinstance(selector, dict):
            return f"'label_selector' must be a dict, not {selector!r}"
        problem = check_label_selector(selector)
        if problem is not None:
            return problem
    return None
