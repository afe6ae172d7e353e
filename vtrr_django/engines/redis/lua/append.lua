-- Put a long row of jobs at the end of its partition's line.
--
-- NEEDS  state
-- USES   rows
-- ARGV   2 the row, see rows.lua

rows().add(ARGV[2])
save()
