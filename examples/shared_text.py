"""A text for each minute that all partitions write together (a Yjs document); needs the extra ``yjs``."""

import msgspec

from holon import WCRDT, Context, Job, Json, ProcessingFunction, Source, Tumbling, Window, on_window
from wcrdt import YText


class Message(msgspec.Struct):
    ts: int
    author: str
    text: str


class SharedText(ProcessingFunction[Message]):
    """Each partition appends to its own contribution; the join is the same text everywhere, to the byte."""

    minutes = WCRDT(YText(), Tumbling.of(minutes=1))

    def process(self, message: Message, ctx: Context) -> None:
        self.minutes.insert(f"{message.author}: {message.text}\n", message.ts)

    @on_window(minutes, scope="global")
    async def publish(self, window: Window, ctx: Context) -> None:
        ctx.emit({"window": window.start_ms, "text": await self.minutes.window_value(window)})


job = Job(
    "shared-text",
    Source("messages", Json(Message), timestamp=lambda message: message.ts),
    SharedText,
    output="texts",
)
