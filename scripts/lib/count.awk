# SPDX-License-Identifier: Apache-2.0
# count.awk: reads the output of `ctest -V` over programs that speak TAP (cmocka does under CMOCKA_MESSAGE_OUTPUT=TAP) and counts
# single tests. A program without TAP counts as one. A program that died counts as one failure, or as many as its plan misses.
# Prints the output of what failed, the list of failures, the list of what was not run with reasons, and the closing line.
# Exit status 1 when anything failed or nothing ran.
function program(k) { return (k in name) ? name[k] : "program " k }

/^[0-9]+: / {
	k = $1 + 0
	text = substr($0, index($0, ": ") + 2)
	if (text !~ /^(Test command|Working Directory|Environment variables|Test timeout computed)/) output[k] = output[k] "    " text "\n"
	if (text ~ /^1\.\.[0-9]+$/) plan[k] += substr(text, 4)
	else if (text ~ /^NOT RUN: /) reason[k] = substr(text, 10)
	else if (text ~ /^(not )?ok [0-9]+ # SKIP/) {
		sub(/^(not )?ok [0-9]+ # SKIP */, "", text)
		skip_list[++skipped] = k SUBSEP text SUBSEP (k in reason ? reason[k] : "no reason given")
		seen[k]++
	} else if (text ~ /^ok [0-9]+ /) { passed++; seen[k]++ }
	else if (text ~ /^not ok [0-9]+ /) {
		sub(/^not ok [0-9]+ -? */, "", text)
		fail_list[++failed] = k SUBSEP text
		seen[k]++
		red[k] = 1
	}
	next
}

/^ *[0-9]+\/[0-9]+ +Test +#[0-9]+: / {
	match($0, /#[0-9]+: /)
	k = substr($0, RSTART + 1, RLENGTH - 3) + 0
	rest = substr($0, RSTART + RLENGTH)
	name[k] = rest
	sub(/ .*/, "", name[k])
	ended[k] = rest ~ / Passed / ? "passed" : rest ~ /\*\*\*Skipped/ ? "skipped" : "failed"
	how[k] = rest
	sub(/^[^ ]* *\.*/, "", how[k])
	sub(/ *[0-9.]+ sec.*/, "", how[k])
	gsub(/\*/, "", how[k])
	order[++programs] = k
}

END {
	for (p = 1; p <= programs; p++) {
		k = order[p]
		tap = k in seen || k in plan
		missing = tap ? plan[k] - seen[k] : 0
		if (ended[k] == "skipped" && !tap) skip_list[++skipped] = k SUBSEP "" SUBSEP (k in reason ? reason[k] : "no reason given")
		else if (!tap && ended[k] == "passed") passed++
		else if (missing > 0 || (ended[k] == "failed" && !(k in red))) {
			fail_list[++failed] = k SUBSEP "ended early or outside its tests: " how[k]
			if (missing > 1) failed_more += missing - 1
			red[k] = 1
		}
		if (k in red) printf "--- %s\n%s", name[k], output[k]
	}
	for (i = 1; i <= failed; i++) { split(fail_list[i], f, SUBSEP); print "FAILED: " program(f[1]) ": " f[2] }
	for (i = 1; i <= skipped; i++) {
		split(skip_list[i], f, SUBSEP)
		print "NOT RUN: " program(f[1]) (f[2] != "" ? ": " f[2] : "") ": " f[3]
	}
	failed += failed_more
	printf "%d passed, %d failed", passed, failed
	if (skipped) printf ", %d skipped", skipped
	print ""
	exit failed > 0 || passed == 0
}
