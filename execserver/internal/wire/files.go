package wire

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

// FileParams are those of methods about one path.
type FileParams struct {
	Path    string `json:"path"`
	Sandbox *any   `json:"sandbox,omitempty"` // refused: files are read and written by the server itself
}

// ReadFileResult is that of fs/readFile.
type ReadFileResult struct {
	Data Chunk `json:"dataBase64"`
}

// WriteFileParams are those of fs/writeFile, which makes the file or replaces what is in it.
type WriteFileParams struct {
	Path    string `json:"path"`
	Data    Chunk  `json:"dataBase64"`
	Sandbox *any   `json:"sandbox,omitempty"`
}

// CreateDirectoryParams are those of fs/createDirectory. With Recursive parents are made, and a directory may be there.
type CreateDirectoryParams struct {
	Path      string `json:"path"`
	Recursive *bool  `json:"recursive,omitempty"`
	Sandbox   *any   `json:"sandbox,omitempty"`
}

// MetadataResult is that of fs/getMetadata. A link is described as what it leads to, with IsSymlink. CreatedAtMs is 0 where
// it is not known.
type MetadataResult struct {
	IsDirectory  bool  `json:"isDirectory"`
	IsFile       bool  `json:"isFile"`
	IsSymlink    bool  `json:"isSymlink"`
	Size         int64 `json:"size"`
	CreatedAtMs  int64 `json:"createdAtMs"`
	ModifiedAtMs int64 `json:"modifiedAtMs"`
}

// ReadDirectoryResult is that of fs/readDirectory, ordered by name.
type ReadDirectoryResult struct {
	Entries []DirectoryEntry `json:"entries"`
}

// DirectoryEntry is one name in a directory. Links are followed.
type DirectoryEntry struct {
	FileName    string `json:"fileName"`
	IsDirectory bool   `json:"isDirectory"`
	IsFile      bool   `json:"isFile"`
}

// RemoveParams are those of fs/remove. Recursive removes what is in a directory, too; with Force nothing need be there.
type RemoveParams struct {
	Path      string `json:"path"`
	Recursive *bool  `json:"recursive,omitempty"`
	Force     *bool  `json:"force,omitempty"`
	Sandbox   *any   `json:"sandbox,omitempty"`
}

// CopyParams are those of fs/copy. Links are copied as links.
type CopyParams struct {
	SourcePath      string `json:"sourcePath"`
	DestinationPath string `json:"destinationPath"`
	Recursive       bool   `json:"recursive"`
	Sandbox         *any   `json:"sandbox,omitempty"`
}

// CanonicalizeResult is that of fs/canonicalize: the path without links.
type CanonicalizeResult struct {
	Path string `json:"path"`
}

// WalkParams are those of fs/walk.
type WalkParams struct {
	Path    string      `json:"path"`
	Options WalkOptions `json:"options,omitzero"`
	Sandbox *any        `json:"sandbox,omitempty"`
}

// WalkOptions bound a walk; what is not said is bounded by the server.
type WalkOptions struct {
	MaxDepth   *uint32 `json:"maxDepth,omitempty"`
	MaxEntries *uint32 `json:"maxEntries,omitempty"`
}

// WalkResult is that of fs/walk: everything below the path, in the order of names, without following links.
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

// OpenFileParams are those of fs/open: a file is opened for reading, under an id that the client chooses.
type OpenFileParams struct {
	HandleID string `json:"handleId"`
	Path     string `json:"path"`
	Sandbox  *any   `json:"sandbox,omitempty"`
}

// ReadBlockParams are those of fs/readBlock.
type ReadBlockParams struct {
	HandleID string `json:"handleId"`
	Offset   uint64 `json:"offset"`
	Len      uint32 `json:"len"`
}

// ReadBlockResult is that of fs/readBlock: as much as there is up to Len, or the server's own bound.
type ReadBlockResult struct {
	Chunk Chunk `json:"chunk"`
	EOF   bool  `json:"eof"` // there is nothing behind it
}

// CloseFileParams are those of fs/close.
type CloseFileParams struct {
	HandleID string `json:"handleId"`
}
