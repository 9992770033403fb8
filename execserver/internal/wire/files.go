package wire

import "net/url"

// FileURI is a path as the protocol has it.
func FileURI(path string) string { return (&url.URL{Scheme: "file", Path: path}).String() }

// Methods about files. Paths are file: URIs or absolute paths; results have URIs.
const (
	ReadFile        = "fs/readFile"
	WriteFile       = "fs/writeFile"
	CreateDirectory = "fs/createDirectory"
	GetMetadata     = "fs/getMetadata"
	ReadDirectory   = "fs/readDirectory"
	Remove          = "fs/remove"
	Copy            = "fs/copy"
	Canonicalize    = "fs/canonicalize"
	Walk            = "fs/walk"
	OpenFile        = "fs/open"
	ReadBlock       = "fs/readBlock"
	CloseFile       = "fs/close"
)

// FileParams are the parameters of methods about one path.
type FileParams struct {
	Path    string `json:"path"`
	Sandbox *any   `json:"sandbox,omitempty"` // refused: files are read and written by the server itself
}

// ReadFileResult is the result of fs/readFile.
type ReadFileResult struct {
	Data Chunk `json:"dataBase64"`
}

// WriteFileParams are the parameters of fs/writeFile, which creates the file or replaces its content.
type WriteFileParams struct {
	Path    string `json:"path"`
	Data    Chunk  `json:"dataBase64"`
	Sandbox *any   `json:"sandbox,omitempty"`
}

// CreateDirectoryParams are the parameters of fs/createDirectory. With Recursive, missing parents are created, and the directory may
// already exist.
type CreateDirectoryParams struct {
	Path      string `json:"path"`
	Recursive *bool  `json:"recursive,omitempty"`
	Sandbox   *any   `json:"sandbox,omitempty"`
}

// MetadataResult is the result of fs/getMetadata. For a link it describes the file to which the link leads, and has IsSymlink.
// CreatedAtMs is 0 if it is not known.
type MetadataResult struct {
	IsDirectory  bool  `json:"isDirectory"`
	IsFile       bool  `json:"isFile"`
	IsSymlink    bool  `json:"isSymlink"`
	Size         int64 `json:"size"`
	CreatedAtMs  int64 `json:"createdAtMs"`
	ModifiedAtMs int64 `json:"modifiedAtMs"`
}

// ReadDirectoryResult is the result of fs/readDirectory, ordered by name.
type ReadDirectoryResult struct {
	Entries []DirectoryEntry `json:"entries"`
}

// DirectoryEntry is one name in a directory. Links are followed.
type DirectoryEntry struct {
	FileName    string `json:"fileName"`
	IsDirectory bool   `json:"isDirectory"`
	IsFile      bool   `json:"isFile"`
}

// RemoveParams are the parameters of fs/remove. Recursive also removes the content of a directory. With Force, a missing file is no
// error.
type RemoveParams struct {
	Path      string `json:"path"`
	Recursive *bool  `json:"recursive,omitempty"`
	Force     *bool  `json:"force,omitempty"`
	Sandbox   *any   `json:"sandbox,omitempty"`
}

// CopyParams are the parameters of fs/copy. Links are copied as links.
type CopyParams struct {
	SourcePath      string `json:"sourcePath"`
	DestinationPath string `json:"destinationPath"`
	Recursive       bool   `json:"recursive"`
	Sandbox         *any   `json:"sandbox,omitempty"`
}

// CanonicalizeResult is the result of fs/canonicalize: the path without links.
type CanonicalizeResult struct {
	Path string `json:"path"`
}

// WalkParams are the parameters of fs/walk.
type WalkParams struct {
	Path    string      `json:"path"`
	Options WalkOptions `json:"options,omitzero"`
	Sandbox *any        `json:"sandbox,omitempty"`
}

// WalkOptions bound a walk. The server bounds everything that they leave out.
type WalkOptions struct {
	MaxDepth   *uint32 `json:"maxDepth,omitempty"`
	MaxEntries *uint32 `json:"maxEntries,omitempty"`
}

// WalkResult is the result of fs/walk: everything below the path, in the order of names, without following links.
type WalkResult struct {
	Entries   []WalkEntry `json:"entries"`
	Errors    []WalkError `json:"errors"`
	Truncated bool        `json:"truncated"` // a bound was reached
}

// WalkEntry is one file below the path.
type WalkEntry struct {
	Path        string `json:"path"`
	IsDirectory bool   `json:"isDirectory"`
	IsFile      bool   `json:"isFile"`
	IsSymlink   bool   `json:"isSymlink"`
}

// WalkError is a directory that could not be read.
type WalkError struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

// OpenFileParams are the parameters of fs/open, which opens a file for reading, under an id that the client chooses.
type OpenFileParams struct {
	HandleID string `json:"handleId"`
	Path     string `json:"path"`
	Sandbox  *any   `json:"sandbox,omitempty"`
}

// ReadBlockParams are the parameters of fs/readBlock.
type ReadBlockParams struct {
	HandleID string `json:"handleId"`
	Offset   uint64 `json:"offset"`
	Len      uint32 `json:"len"`
}

// ReadBlockResult is the result of fs/readBlock: at most Len bytes, or the server's own bound if that is less.
type ReadBlockResult struct {
	Chunk Chunk `json:"chunk"`
	EOF   bool  `json:"eof"` // the file ends after the chunk
}

// CloseFileParams are the parameters of fs/close.
type CloseFileParams struct {
	HandleID string `json:"handleId"`
}
