package node

import "runtime/debug"

// Version is that of the program: of the module, or the commit that the program was built from, with a plus sign where files differed from it.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	commit, more := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			more = "+"
		}
	}
	if commit == "" {
		return "unknown"
	}
	return commit + more
}
