package dpi

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"dpiframe.org/dpi/internal/native"
)

// BindingVersion is the version of this package. The library must have the same major and at least this minor version.
const (
	bindingMajor   = 1
	bindingMinor   = 2
	BindingVersion = "1.2.0"
)

// LibraryVersion is the version of the loaded library, "1.2.0".
func LibraryVersion() string { return versionText(native.Dpi_version()) }

// LibraryPath is the file that the library was loaded from.
func LibraryPath() string {
	var info struct {
		Path string `json:"path"`
	}
	if json.Unmarshal([]byte(BuildInfoJSON()), &info) != nil {
		return ""
	}
	return info.Path
}

// BuildInfoJSON has the library's version, compiler, libraries and file.
func BuildInfoJSON() string { return native.GoString(native.Dpi_build_info_json()) }

// DevicesJSON lists every backend, usable or refused with its reason. backendDir may be empty.
func DevicesJSON(backendDir string) string {
	var dir *byte
	if backendDir != "" && strings.IndexByte(backendDir, 0) < 0 {
		dir = native.CString(backendDir)
	}
	return native.Text(func(buf *byte, capacity uint64) uint64 { return native.Dpi_devices_json(dir, buf, capacity) })
}

var version struct {
	once sync.Once
	err  error
}

// CheckVersion compares the binding with the loaded library, as Load does before anything else.
func CheckVersion() error {
	version.once.Do(func() { version.err = fits(native.Dpi_version(), native.HeaderVersion, LibraryPath()) })
	return version.err
}

func versionText(v uint32) string { return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100) }

func fits(library, header uint32, path string) error {
	for _, want := range []struct {
		what         string
		major, minor uint32
	}{{"binding dpiframe.org/dpi " + BindingVersion, bindingMajor, bindingMinor},
		{"binding compiled against dpi.h " + versionText(header), header / 10000, header / 100 % 100}} {
		if library/10000 != want.major || library/100%100 < want.minor {
			return plainError(Version, "%s does not fit library %s (%s): expected %d.%d or a later %d.x", want.what,
				versionText(library), path, want.major, want.minor, want.major)
		}
	}
	return nil
}
