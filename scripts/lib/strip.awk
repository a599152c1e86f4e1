# SPDX-License-Identifier: Apache-2.0
# strip.awk: C source with comments, strings and character constants blanked, line numbers kept. With keep=strings only comments go.
# `#include` lines keep their text. Output: file:line:text for several files at once.
FNR == 1 { block = 0 }
{
	line = $0
	out = ""
	include = line ~ /^[ \t]*#[ \t]*include/
	n = length(line)
	i = 1
	while (i <= n) {
		if (block) {
			j = index(substr(line, i), "*/")
			if (!j) { i = n + 1; break }
			i += j + 1
			block = 0
			continue
		}
		rest = substr(line, i)
		if (!match(rest, include ? "/[*]|//" : "/[*]|//|\"|'")) { out = out rest; break }
		out = out substr(rest, 1, RSTART - 1)
		i += RSTART - 1
		two = substr(line, i, 2)
		if (two == "//") break
		if (two == "/*") { block = 1; i += 2; out = out " "; continue }
		quote = substr(line, i, 1)
		start = i
		for (i++; i <= n && (c = substr(line, i, 1)) != quote; i++) if (c == "\\") i++
		i++
		out = out (keep == "strings" ? substr(line, start, i - start) : quote quote)
	}
	print FILENAME ":" FNR ":" out
}
