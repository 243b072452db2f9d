"""Files by which build systems find a library: for pkg-config, and a package for CMake."""

from __future__ import annotations

import os
from pathlib import Path

_PKG_CONFIG = """prefix=${{pcfiledir}}
libdir=${{prefix}}{libdir}
includedir=${{prefix}}{includedir}

Name: {name}
Description: {name}, compiled from Python by jitad
Version: 0
Libs: -L${{libdir}} -Wl,-rpath,${{libdir}} {link}
Libs.private: {private}
Cflags: -I${{includedir}}
"""
_CMAKE = """# {name}: find_package({name} CONFIG), then target_link_libraries(… {name}::{name})
if(NOT TARGET {name}::{name})
  add_library({name}::{name} {kind} IMPORTED)
  set_target_properties({name}::{name} PROPERTIES
    IMPORTED_LOCATION "${{CMAKE_CURRENT_LIST_DIR}}/{file}"
    INTERFACE_INCLUDE_DIRECTORIES "${{CMAKE_CURRENT_LIST_DIR}}/{include}"{libraries})
endif()
set({name}_FOUND TRUE)
"""


def pkg_config(at: Path, name: str, library: Path, header: Path | None, private: str) -> str:
    """The text of ``NAME.pc`` in the file ``at``.  Paths are relative to that file, so the folder may be moved."""
    link = f"-l{library.stem.removeprefix('lib')}" if library.stem.startswith("lib") else f"-l:{library.name}"
    return _PKG_CONFIG.format(name=name, link=link, private=private, libdir=_from(at, library),
                              includedir=_from(at, header or library))


def cmake(at: Path, name: str, library: Path, header: Path | None, private: str) -> str:
    """The text of ``NAMEConfig.cmake`` in the file ``at``."""
    static = library.suffix == ".a"
    extra = f"\n    INTERFACE_LINK_LIBRARIES \"{private.replace(' ', ';')}\"" if static and private else ""
    file = os.path.relpath(library.absolute(), at.absolute().parent)
    return _CMAKE.format(name=name, kind="STATIC" if static else "SHARED", file=file, libraries=extra,
                         include=os.path.relpath((header or library).absolute().parent, at.absolute().parent))


def _from(at: Path, file: Path) -> str:
    """The folder of ``file`` as a path behind the folder of ``at``."""
    path = os.path.relpath(file.absolute().parent, at.absolute().parent)
    return "" if path == "." else f"/{path}"
