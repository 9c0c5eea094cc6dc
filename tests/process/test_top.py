"""`bailiff top` on a real terminal and a real pool."""

import pytest
from tests.kits.pty_program import PtyProgram
from tests.kits.system import System

pytestmark = pytest.mark.kafka


async def test_top_shows_what_happens_and_leaves_the_terminal_as_it_was(battered: System) -> None:
    async with battered.watch("pool-a") as watch:
        await watch.clear()  # of jobs that an earlier story keeps for the next
        env = {**battered.stack.kafka_environment("operator"), "BAILIFF_POOL": "pool-a"}
        for leave, code in (("q", 0), ("\x03", 130)):
            top = PtyProgram(["top"], env, rows=24, columns=80)
            try:
                top.until("PENDING")
                await watch.submit(f"shown-{code}", watch.until_signalled(), gpus=1)
                top.until(f"shown-{code}")
                top.type(leave)
                assert top.ended() == code, top.screen
                assert top.is_restored
                assert "\x1b[?1049l" in top.screen, "it has left the alternate screen"
            finally:
                top.close()
            watch.let_finish(f"shown-{code}")
            await watch.until_ended(f"shown-{code}")
