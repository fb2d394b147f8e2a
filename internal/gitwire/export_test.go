package gitwire

// Limit bounds what a lineage holds.
func (l *Lineage) Limit(room int) { l.room = room }
