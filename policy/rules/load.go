package rules

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/rules/internal/bounded"
	"golang.org/x/sys/unix"
)

// maxFiles bounds how many rule files of one directory are read.
const maxFiles = 128

// Layer is a place that rules come from.
type Layer struct {
	Dir     string   // its files *.rules, at most 128, in the order of their names; a missing directory has none
	Files   []string // single files, which have to exist, after those of Dir
	Trusted bool     // a layer that is not trusted is not read
}

// Load reads layers, from low to high precedence.
//
// Each error names its file, and the line where there is one. A file with an error contributes no rules, and every other
// file stays in force.
func Load(layers []Layer) (*Set, []error) {
	all := &Set{}
	var failures []error
	for _, layer := range layers {
		if !layer.Trusted {
			continue
		}
		files, err := layer.files()
		if err != nil {
			failures = append(failures, err)
		}
		for _, file := range files {
			rules, err := loadFile(file)
			if err != nil {
				failures = append(failures, err)
				continue
			}
			all.merge(rules)
		}
	}
	return all, failures
}

// files lists the files to read. If there is also an error, the files that are listed still count.
func (l Layer) files() ([]string, error) {
	if l.Dir == "" {
		return l.Files, nil
	}
	entries, err := os.ReadDir(l.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return l.Files, nil
	}
	if err != nil {
		return l.Files, fileError(l.Dir, err)
	}
	var files []string
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), ".rules") {
			files = append(files, filepath.Join(l.Dir, entry.Name()))
		}
	}
	if len(files) > maxFiles {
		first := files[maxFiles]
		err = fileError(l.Dir, fmt.Errorf("there are more than %d rule files; %s and those after it are not read", maxFiles, first))
		files = files[:maxFiles]
	}
	return append(files, l.Files...), err
}

func loadFile(path string) (*Set, error) {
	// Without O_NONBLOCK, opening a named pipe would wait for a writer.
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fileError(path, err)
	}
	defer file.Close()
	if err := checkRegular(file); err != nil {
		return nil, fileError(path, err)
	}
	source, err := io.ReadAll(io.LimitReader(file, bounded.MaxSource+1))
	if err != nil {
		return nil, fileError(path, err)
	}
	return Parse(path, source)
}

func checkRegular(file *os.File) error {
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	return err
}

func fileError(path string, err error) error {
	return &messages.Error{Code: messages.ErrInvalidRequest, Op: "load rules", Subject: path, Detail: detailOf(err)}
}
