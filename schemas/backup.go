package schemas

import "time"

// RouteBackup is where the operator's admins read a backup of a running node.
const RouteBackup = "/v1/backup"

// BackupFormat is raised when an older Weir cannot restore what this one backs up.
const BackupFormat = 1

// BackupManifest describes a backup. It is the last entry of the archive, so an archive with a manifest
// is complete.
type BackupManifest struct {
	Format int `json:"format"`
	// Weir is the version of the program that made the backup.
	Weir    string    `json:"weir"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
	// Partitions are those of the log; a node that restores the backup needs the same number.
	Partitions int          `json:"partitions"`
	Parts      []BackupPart `json:"parts"`
}

// BackupPart is a stream or the repositories.
type BackupPart struct {
	Name    string `json:"name"`
	Entries int    `json:"entries"`
	Bytes   int64  `json:"bytes"`
	// SHA256 covers the names, sizes and contents of the part's entries, in their order.
	SHA256 string `json:"sha256"`
}
