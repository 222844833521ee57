"""FlinkCQL: continuous queries in a language like SQL, over streams that arrive out of order (Vu 2015)."""

from detectors.cql.cql_script import Script, compile_cql, load_cql
from detectors.language.query_errors import QueryError

__all__ = ["QueryError", "Script", "compile_cql", "load_cql"]
