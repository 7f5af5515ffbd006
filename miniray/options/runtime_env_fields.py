"""The fields of a runtime environment: their checks, and the form in which they are kept.

For the option `runtime_env`, for `init`, and for `RuntimeEnv`. Ray: _private/runtime_env/validation.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from .._version import __ray_commit__
from .telling import tell_once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CONFIG = {"setup_timeout_seconds": 600, "eager_install": True, "log_files": []}
"""The fields of `config`, with Ray's defaults."""

_FIELDS_WITH_EFFECT = ("env_vars", "config")  # config holds time limits for Ray's setup, of which there is none
_INSTALLERS = ("pip", "uv", "conda")
_ALONE = ("container", "image_uri")  # each goes with `config` and `env_vars` only
_PACKAGES = {
    "working_dir": (".zip", ".tar.gz", ".tgz", ".tar.xz"),
    "py_modules": (".zip", ".whl", ".tar.gz", ".tgz", ".tar.xz"),
}
_REMOTE = ("gcs", "http", "https", "s3", "gs", "azure", "abfss", "file")


# ---------------------------------------------------------------- a whole environment


def normalised(runtime_env: Mapping[Any, Any]) -> dict[str, Any]:
    """A runtime environment in the form in which it is kept: each field checked, lists of packages as dicts, and
    without the fields that ask for nothing. Fields that nobody knows pass, as in Ray: plugins own them.

    A field that has no effect here is told once. Raises what `field_value` raises, and ValueError for fields that
    exclude each other.
    """
    given = dict(runtime_env)
    _check_together(given)
    found = {name: value for name, value in given.items() if name not in _CHECKS or value is None}
    for name in _CHECKS:
        if given.get(name) is not None and (value := field_value(name, given[name])) is not None:
            found[name] = value
    if found.get("pip") or found.get("conda"):
        found.setdefault("_ray_commit", __ray_commit__)
    for name, value in found.items():
        if name not in _FIELDS_WITH_EFFECT and value and not name.startswith("_ray"):
            tell_once(f"the field {name!r} of a runtime_env")
    return {} if all(value is None for value in found.values()) else found


def of_task_or_actor(runtime_env: Mapping[Any, Any] | None) -> dict[str, Any] | None:
    """The option `runtime_env` as `normalised` gives it; None for an empty one.

    Raises ValueError for a folder of this machine as well: only `init` can send one to the workers.
    """
    if not runtime_env:
        return None
    for name in runtime_env:
        if not isinstance(name, str):
            raise TypeError(f"keywords must be strings: {name!r} is not a field of runtime_env")
    found = normalised(runtime_env)
    for name in _PACKAGES:
        for place in _places(found.get(name)):
            _check_uri(name, place)
    return found


def check_json(runtime_env: Mapping[str, Any] | None) -> None:
    """Raise TypeError for an environment that has no form as JSON, as which Ray sends it."""
    if runtime_env and runtime_env.keys() - set(_FIELDS_WITH_EFFECT):
        as_json(runtime_env)


def as_json(value: Any) -> str:
    """Return JSON with the keys in alphabetical order. Raises TypeError for a value that JSON does not support."""
    import json  # takes milliseconds, which most programs need not spend

    return json.dumps(value, sort_keys=True)


def _check_together(given: Mapping[str, Any]) -> None:
    installers = [name for name in _INSTALLERS if given.get(name) is not None]
    if len(installers) > 1:
        raise ValueError(
            "The 'pip' field, 'uv' field, and 'conda' field of runtime_env cannot be specified at the same time, and "
            f"{' and '.join(installers)} were"
        )
    for name in _ALONE:
        others = given.keys() - {name, "config", "env_vars"}
        if given.get(name) and others:
            raise ValueError(
                f"The {name!r} field currently cannot be used together with other fields of runtime_env: "
                f"{', '.join(sorted(others))}"
            )


# ---------------------------------------------------------------- single fields


def field_value(name: str, value: Any) -> Any:
    """A field in the form in which it is kept; None if it asks for nothing, and is left out.

    Raises TypeError for a wrong type; ValueError for what cannot be: a file that is not there, a variable that no
    process can have.
    """
    check = _CHECKS.get(name)
    return value if check is None else check(value)


def _working_dir(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"`working_dir` must be a string, got {type(value)}.")
    _check_place("working_dir", value)
    return value


def _py_modules(value: Any) -> list[str]:
    if not isinstance(value, list):
        raise TypeError(f"`py_modules` must be a list of strings, got {type(value)}.")
    for module in value:
        if not isinstance(module, str):
            raise TypeError(f"`py_module` must be a string, got {type(module)}.")
        _check_place("py_modules", module)
    return value


def _places(value: Any) -> list[str]:
    return [] if not value else [value] if isinstance(value, str) else list(value)


def _scheme(place: str) -> str | None:
    """The part of a URI before the first colon, in lower case; None for a path."""
    import re  # only for an environment with a place in it

    found = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):", place)
    return found[1].lower() if found else None


def _check_place(name: str, place: str) -> None:
    """Check a path, or the URI of a package."""
    if _scheme(place) is not None:
        _check_uri(name, place)
    elif not os.path.exists(place or os.curdir):
        raise ValueError(f"{place} is not a valid path.")


def _check_uri(name: str, place: str) -> None:
    scheme = _scheme(place) or ""
    if scheme == "local":
        path = place[len("local://") :] if place.lower().startswith("local://") else ""
        if not path.startswith("/"):
            raise ValueError(f"{place} is not a valid URI: write local:///path/in/image")
        return
    if scheme not in _REMOTE + _INSTALLERS:
        raise ValueError(
            f"{place} is not a valid URI. Passing directories or modules is only supported at the job level: give "
            f"{name!r} to `init`"
        )
    path = place.partition("?")[0]
    if scheme in _REMOTE and not path.endswith(_PACKAGES[name]):
        raise ValueError(f"Only {', '.join(_PACKAGES[name])} files are supported for {name} URIs; got {path}.")


def _excludes(value: Any) -> list[str] | None:
    if not isinstance(value, list) or not all(isinstance(path, str) for path in value):
        raise TypeError(f"runtime_env['excludes'] must be of type List[str], got {type(value)}")
    return value or None


def _conda(value: Any) -> Any:
    if isinstance(value, dict):
        return value
    if not isinstance(value, str):
        raise TypeError(f"runtime_env['conda'] must be of type str or dict, got {type(value)}.")
    if value.endswith((".yaml", ".yml")):
        if not os.path.isfile(value):
            raise ValueError(f"Can't find conda YAML file {value}.")
        return value  # Ray reads it; there is no reader of YAML in the standard library
    if os.path.isabs(value) and not os.path.isdir(value):
        raise ValueError(f"Can't find conda env directory {value}.")
    return value


def _pip(value: Any) -> dict[str, Any] | None:
    types = {"pip_check": bool, "pip_install_options": list, "pip_version": str}
    return _packages("pip", value, types, {"pip_check": False})


def _uv(value: Any) -> dict[str, Any] | None:
    types = {"uv_check": bool, "uv_version": str, "uv_pip_install_options": list}
    return _packages("uv", value, types, {"uv_check": False, "uv_pip_install_options": ["--no-cache"]})


def _packages(name: str, value: Any, types: Mapping[str, type], defaults: Mapping[str, Any]) -> dict[str, Any] | None:
    """What `pip` or `uv` is told, as a dict with each package once. None if there are no packages.

    types: those of the fields that a dict may have beside `packages`. defaults: for the fields that it leaves out.
    A list of packages, or the name of a requirements file, has no field but the check.
    """
    check = f"{name}_check"
    if isinstance(value, dict):
        found = {**value, **{field: default for field, default in defaults.items() if field not in value}}
        found["packages"] = _packages_in(name, value, types)
    elif isinstance(value, str):
        found = {"packages": _lines_of(value), check: False}
    elif isinstance(value, list) and all(isinstance(package, str) for package in value):
        found = {"packages": value, check: False}
    else:
        raise TypeError(f"runtime_env['{name}'] must be of type str, List[str], or dict, got {type(value)}")
    found["packages"] = list(dict.fromkeys(found["packages"]))
    return found if found["packages"] else None


def _packages_in(name: str, value: Mapping[str, Any], types: Mapping[str, type]) -> list[Any]:
    """Check a dict, and return its packages. There, only `pip` takes the name of a file, and items of any type."""
    at = f"runtime_env['{name}']"
    if value.keys() - types.keys() - {"packages"}:
        raise ValueError(f"{at} can only have these fields: packages, {', '.join(types)}, but got: {list(value)}")
    for field, wanted in types.items():
        if field not in value:
            continue
        if not isinstance(value[field], wanted):
            of_type = "list[str]" if wanted is list else wanted.__name__
            raise TypeError(f"{at}['{field}'] must be of type {of_type}, got {type(value[field])}")
        if wanted is list:
            _check_texts(f"{at}['{field}']", value[field])
    if "packages" not in value:
        raise ValueError(f"{at} must include field 'packages', but got {dict(value)}")
    packages = value["packages"]
    if name == "pip" and isinstance(packages, str):
        return _lines_of(packages)
    if not isinstance(packages, list):
        raise ValueError(f"{at}['packages'] must be of type list, got: {type(packages)}")
    if name == "uv":
        _check_texts(f"{at}['packages']", packages)
    return packages


def _check_texts(at: str, values: list[Any]) -> None:
    for index, value in enumerate(values):
        if not isinstance(value, str):
            raise TypeError(f"{at} must be of type list[str], got {type(value)} for item {index}")


def _lines_of(path: str) -> list[str]:
    """The lines of a requirements file, as they are."""
    if not os.path.isfile(path):
        raise ValueError(f"{path} is not a valid file")
    with open(path, encoding="utf-8") as file:
        return file.read().strip().split("\n")


def _env_vars(value: Any) -> dict[str, str] | None:
    if len(value) == 0:
        return None
    expected = "runtime_env['env_vars'] must be of type Dict[str, str]"
    if not isinstance(value, dict):
        raise TypeError(f"{expected}, got {type(value)}")
    for name, text in value.items():
        if not isinstance(name, str):
            raise TypeError(f"{expected}, but the key {name} is of type {type(name)}")
        if not isinstance(text, str):
            raise TypeError(f"{expected}, but the value {text} is of type {type(text)}")
        check_variable(name, text)
    return value


def check_variable(name: str, value: str) -> None:
    """Raise ValueError for a variable that no process can have in its environment.

    With Ray, a task with such a variable waits for a worker forever.
    """
    if not name or "=" in name:
        raise ValueError(f"illegal environment variable name {name!r}")
    for text in name, value:
        if "\0" in text:
            raise ValueError(f"embedded null byte in the environment variable {name!r}")
        os.fsencode(text)  # a UnicodeEncodeError is a ValueError


def config_of(value: Any) -> dict[str, Any]:
    """`config` with all its fields. Unknown ones are ignored, as in Ray."""
    if not isinstance(value, dict):
        raise TypeError(f"runtime_env['config'] must be of type dict or RuntimeEnvConfig, got: {type(value)}")
    return checked_config(**{name: value.get(name, default) for name, default in CONFIG.items()})


def checked_config(setup_timeout_seconds: Any, eager_install: Any, log_files: Any) -> dict[str, Any]:
    """The three fields of `config`. Raises TypeError for a wrong type; ValueError for a time limit that is neither
    positive nor -1."""
    if not isinstance(setup_timeout_seconds, int):
        raise TypeError(f"setup_timeout_seconds must be of type int, got: {type(setup_timeout_seconds)}")
    if setup_timeout_seconds <= 0 and setup_timeout_seconds != -1:
        raise ValueError(
            f"setup_timeout_seconds must be greater than zero or equals to -1, got: {setup_timeout_seconds}"
        )
    if not isinstance(eager_install, bool):
        raise TypeError(f"eager_install must be a boolean. got {type(eager_install)}")
    if log_files is not None and not isinstance(log_files, list):
        raise TypeError(f"log_files must be a list of strings or None, got {log_files} with type {type(log_files)}.")
    if not all(isinstance(file, str) for file in log_files or ()):
        raise TypeError("Each item in log_files must be a string.")
    return {
        "setup_timeout_seconds": setup_timeout_seconds,
        "eager_install": eager_install,
        "log_files": log_files or [],
    }


def _as_it_is(value: Any) -> Any:
    return value


# In Ray's order, in which the fields are kept as well.
_CHECKS: dict[str, Callable[[Any], Any]] = {
    "py_modules": _py_modules,
    "working_dir": _working_dir,
    "excludes": _excludes,
    "conda": _conda,
    "pip": _pip,
    "uv": _uv,
    "env_vars": _env_vars,
    "container": _as_it_is,
    "config": config_of,
}
